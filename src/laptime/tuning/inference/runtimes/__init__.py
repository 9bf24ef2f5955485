"""One file a runtime: its changes, and the forms that it runs, by the contract of `tuning.inference.changes`.

Above each change stands when it lies (misleads) and where it comes from. Frameworks are imported inside
functions."""
