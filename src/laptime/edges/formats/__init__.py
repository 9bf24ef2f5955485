"""A run as the file of another tool: reports as those of `reports/formats`, and with the same contract."""
