"""Pure functions on records: the same answer years later, from a file."""
