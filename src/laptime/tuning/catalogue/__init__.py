"""One file an optimization. The contract is `tuning/optimization.py`; files that begin with `_` are
private."""
