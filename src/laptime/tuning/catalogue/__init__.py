"""One file an optimization, by the contract of `tuning/optimization.py`. What begins with `_` is private."""
