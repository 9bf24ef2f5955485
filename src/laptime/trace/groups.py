"""Grouping rows by integer codes, without sorting them where the codes are few."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.trace.columns import Floats, Index, Ints, Mask

Codes = NDArray[np.integer[Any]]
Numbers = NDArray[np.number[Any]] | Mask

_SMALL = 1 << 22
"""Codes below this are counted in a table instead of sorted."""


class Groups(NamedTuple):
    """Rows in groups.

    Attributes:
        of: per row the number of its group.
        codes: one array a column that was grouped by: per group its code there.
    """

    of: Index
    codes: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.codes[0])

    def sizes(self) -> Ints:
        """Rows in every group."""
        return np.bincount(self.of, minlength=len(self))

    def sums(self, weights: Numbers) -> Floats:
        """Sum of weights in every group; exact for integers below 2**53."""
        return np.bincount(self.of, weights, minlength=len(self)).astype(np.float64)


def group(*columns: Codes) -> Groups:
    """Rows that agree in every column. Codes are -1 or above."""
    of, first = _distinct(columns[0].astype(np.int64))
    codes = [first]
    for column in columns[1:]:
        codes_of, values = _distinct(column.astype(np.int64))
        of, pairs = _distinct(of * np.int64(len(values)) + codes_of)
        codes = [each[pairs // len(values)] for each in codes] + [values[pairs % len(values)]]
    return Groups(of.astype(np.int32), tuple(codes))


def _distinct(codes: Ints) -> tuple[Ints, Ints]:
    """Per row the number of its code, and the codes, ascending."""
    bound = int(codes.max(initial=-1)) + 2
    if bound > _SMALL:
        values, of = np.unique(codes, return_inverse=True)
        return of.astype(np.int64), values
    used = np.zeros(bound, bool)
    used[codes] = True  # -1 is the last
    values = np.flatnonzero(used)
    number = np.zeros(bound, np.int64)
    number[values] = np.arange(len(values))
    values[values == bound - 1] = -1
    return number[codes], values
