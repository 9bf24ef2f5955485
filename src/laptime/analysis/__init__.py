"""Pure functions on records: a stored run gives the same answer years later."""
