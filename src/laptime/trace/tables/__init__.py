"""One file a table of a profile: a View in, rows of `records` out, nothing else computed."""
