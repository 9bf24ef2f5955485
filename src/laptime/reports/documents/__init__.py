"""Builders: one a kind of run, from records to a `Document`."""
