"""Changes to a model, one file each; `tuning.inference.implementation` has the contract."""
