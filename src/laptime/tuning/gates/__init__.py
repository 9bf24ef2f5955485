"""Is it still the same training? Pure functions on what `trial.numerics` has captured and compared.

invariants      of every class: finite, steps, effective batch, learning rate, settings, types, clipping
numeric         loss, gradients (norm and direction), parameters, buffers, optimizer state; tolerance by class
rounding_noise  wider tolerances where rounding alone does more, from simulations
data            samples of an epoch, batches, order, augmentation, distribution
verdict         all of them -> records.tuning.Gate; final losses paired by seed -> Convergence"""
