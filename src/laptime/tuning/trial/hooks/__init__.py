"""Torch's functions wrapped, and what the wrappers tell: the loop as a trial sees it, and the changes that
are on."""
