"""The cost of a measured speed: prices of machines, formulas, and bounds of other machines."""
