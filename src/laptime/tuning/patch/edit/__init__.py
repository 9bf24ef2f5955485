"""What edits a node that was found: text put into a file at offsets, in its indentation and newlines.

arguments         of a call: found, added, replaced, removed
statements        put behind, before and around others
top_level         imports, definitions and statements of the whole process
models, batches   statements for models and optimizers; what a training loop does with its batches
forward           the forward part of a step, from the first call of a model to the backward pass
"""
