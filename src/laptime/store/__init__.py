"""Runs as plain files: one run, one file. A run still going on is a journal of its events."""
