"""The version and the folder of this package. No room imports `laptime` itself: it offers what they make."""

__version__ = "0.1.0"

FOLDER = __file__.rpartition("/kit/")[0]
"""Holds the rooms. A text: `import laptime` reads this file and is not to wait for `pathlib`."""
