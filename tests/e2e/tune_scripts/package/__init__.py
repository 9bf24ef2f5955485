"""A package that is run by `-m package.train`."""
