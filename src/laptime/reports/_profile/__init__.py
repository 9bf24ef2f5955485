"""The reports of a profile, one file a form; `reports/NAME.py` hands a run over when it has one."""
