"""One file a verb: each puts the rooms below together. The command line and the Python API call these."""
