"""`laptime scale`: a training script on several numbers of ranks."""
