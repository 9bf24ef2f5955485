"""Units, errors, clocks, the extension registry. Standard library only."""
