"""Is it still the same training? Pure functions on what `trial.witness` has left; one file a kind of
question.

numeric      loss, gradients (norm and direction), parameters, buffers, optimizer state; tolerance from the
class
data         samples of an epoch, effective batch, order, learning rate per step
convergence  paired by seed, non-inferiority with a margin said beforehand
verdict      all of them -> records.tuning.Gate
"""
