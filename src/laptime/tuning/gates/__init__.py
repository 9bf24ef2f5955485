"""Is it still the same training? Pure functions on what `trial.witness` has left; one file a kind of
question.

witnessed    gate.json, typed
invariants   finite, steps, effective batch, learning rate, settings, types, clipping: of every class
numeric      loss, gradients (norm and direction), parameters, buffers, optimizer state; tolerance from the
             class
data         samples of an epoch, batches, order, augmentation, distribution
convergence  paired by seed, non-inferiority with a margin said beforehand
verdict      all of them -> records.tuning.Gate
"""
