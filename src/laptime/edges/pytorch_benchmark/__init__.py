"""What the package pytorch-benchmark measures, measured as laptime does: behind its door in `laptime.compat`.

program    the user's model and inputs: made ready, moved, called
procedure  what is measured, in which order
results    measurements as the keys and texts that the package returns, and its words for quantities
"""
