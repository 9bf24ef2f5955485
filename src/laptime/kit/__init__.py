"""Units, errors, clocks, the extension registry; the version and the folder of this package. Standard library
only."""

__version__ = "0.1.0"
FOLDER = __file__.rpartition("/kit/")[0]
"""Holds the rooms. A string, because `import laptime` reads this file and must not wait for `pathlib`."""
