"""Sets of ranges in integer nanoseconds, the tree of ranges that lie in each other, and groups of rows.

A set is a `Ranges` of half-open ranges [start, end): sorted, without overlaps, without empty ranges; touching
ranges are joined. `union` makes one from any arrays. All results are exact. The tree over host ranges is by
thread and time containment; groups are by integer codes, which are not sorted if there are few of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.trace.columns import NONE, DeviceWork, Floats, Host, HostKind, Index, Ints, Mask, Rows


class RangeTree(NamedTuple):
    """A tree over rows of `Host`."""

    rows: Index  # host rows that take part, ascending; everything below is per host row
    parent: Index  # host row of the innermost range around it, NONE for roots and for rows that take no part
    depth: Index  # 0 for roots, NONE for rows that take no part


def build(host: Host, take: Mask) -> RangeTree:
    """The tree over the rows in `take`.

    Ranges that cross (start inside another and end after it) lie in the one they start in; what starts in
    both lies in the later one."""
    rows = np.flatnonzero(take).astype(np.int32)
    parent = np.full(len(host), NONE, np.int32)
    depth = np.full(len(host), NONE, np.int32)
    if not len(rows):
        return RangeTree(rows, parent, depth)
    # Twice the time, so that an instant can be a range of one half: it lies in what begins there.
    start = host.start[rows] * 2
    end = host.end[rows] * 2
    end[end == start] += 1
    thread = host.thread[rows]
    # Per range, sorted by (thread, start, -end): the last before it on its thread that is open at its start.
    # Who climbs from the range before it over what has ended skips all that ended no later.
    number = len(start)
    before = np.arange(-1, number - 1)
    before[np.append(True, thread[1:] != thread[:-1])] = NONE
    longer, todo = before.copy(), np.flatnonzero(before >= 0)
    while len(todo := todo[end[longer[todo]] <= end[todo]]):  # each time twice as far
        longer[todo] = longer[longer[todo]]
        todo = todo[longer[todo] >= 0]
    own_parent, todo = before, np.flatnonzero(before >= 0)
    while len(todo := todo[end[own_parent[todo]] <= start[todo]]):
        own_parent[todo] = longer[own_parent[todo]]
        todo = todo[own_parent[todo] >= 0]
    parent[rows] = np.where(own_parent >= 0, rows[np.maximum(own_parent, 0)], NONE)
    # How many ancestors each row has.
    above, depths = own_parent.copy(), (own_parent >= 0).astype(np.int32)
    while len(todo := np.flatnonzero(above >= 0)):  # each time twice as far up
        depths[todo] += depths[above[todo]]
        above[todo] = above[above[todo]]
    depth[rows] = depths
    return RangeTree(rows, parent, depth)


def calls(host: Host) -> RangeTree:
    """The tree of annotations, operators, runtime and driver calls."""
    kinds = (HostKind.OPERATOR, HostKind.ANNOTATION, HostKind.RUNTIME, HostKind.DRIVER)
    return build(host, np.isin(host.kind, kinds))


def levels(tree: RangeTree) -> list[Index]:
    """The rows of each depth, roots first; parents always come in an earlier list."""
    deep = tree.depth[tree.rows]
    order = np.argsort(deep, kind="stable")
    bounds = np.cumsum(np.bincount(deep)) if len(deep) else np.empty(0, np.int64)
    return [part for part in np.split(tree.rows[order], bounds[:-1])] if len(deep) else []


def inherit(tree: RangeTree, values: Index) -> Index:
    """For every host row its own value, or that of its nearest ancestor which has one; NONE without."""
    inherited, above = values.copy(), tree.parent.copy()
    todo = np.flatnonzero((inherited < 0) & (above >= 0))
    while len(todo):  # each time twice as far up: all between a row and `above` have no value
        at = above[todo]
        inherited[todo], above[todo] = inherited[at], above[at]
        todo = todo[(inherited[todo] < 0) & (above[todo] >= 0)]
    return inherited


def outlasting(host: Host, tree: RangeTree) -> Index:
    """Per host row its nearest ancestor that ends later; NONE without. Ranges that cross end before those
    that begin in them: who looks for what is still open at an instant would climb over all of them."""
    above = tree.parent.copy()
    todo = np.flatnonzero(above >= 0)
    while len(todo := todo[host.end[above[todo]] <= host.end[todo]]):
        above[todo] = above[above[todo]]
        todo = todo[above[todo] >= 0]
    return above


class Subtrees(NamedTuple):
    """Every row of a tree with all that lies in it, as a stretch of `RangeTree.rows`: a row comes before its
    descendants, and these before whatever follows."""

    rows: Index  # those of the tree
    end: Ints  # per row of `rows`: where its descendants end there

    def sums(self, values: Ints | Mask) -> Ints:
        """Per host row of `rows`: the sum of a column of all host rows over it and all that lies in it."""
        whole = np.append(0, np.cumsum(values[self.rows]))
        return np.asarray(whole[self.end] - whole[:-1], np.int64)

    def outermost(self, group: Index) -> Mask:
        """Which of `rows` are in a group and in no other row of their group; `group` is per host row, NONE is
        in none."""
        group = group[self.rows]
        outer = np.zeros(len(group), bool)
        at = np.flatnonzero(group >= 0)
        if len(at):
            at = at[np.argsort(group[at], kind="stable")]
            # Groups one after the other on one axis: the furthest end so far is one of the same group.
            base = group[at].astype(np.int64) * (len(group) + 1)
            furthest = np.maximum.accumulate(base + self.end[at])
            outer[at] = np.append(True, base[1:] + at[1:] >= furthest[:-1])
        return outer


def subtrees(tree: RangeTree) -> Subtrees:
    """The descendants of every row."""
    number = len(tree.rows)
    place = np.zeros(len(tree.parent) + 1, np.int64)
    place[tree.rows] = np.arange(number)
    above = np.where(tree.parent[tree.rows] >= 0, place[tree.parent[tree.rows]], NONE)
    order = np.argsort(above, kind="stable")
    follows = above[order[1:]] == above[order[:-1]]
    end = np.full(number, NONE)
    end[order[:-1][follows]] = order[1:][follows]
    # The last of its siblings ends where its parent does; each time twice as far up.
    todo = np.flatnonzero(end < 0)
    while len(todo):
        at = above[todo]
        end[todo] = np.where(at >= 0, end[at], number)
        above[todo] = above[at]
        todo = todo[end[todo] < 0]
    return Subtrees(tree.rows, end)


class Ranges(NamedTuple):
    """Sorted, disjoint ranges; int64 arrays of one length."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        """Covered ns."""
        return int((self.end - self.start).sum())


EMPTY = Ranges(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Ints, end: Ints) -> Ranges:
    """The set that ranges in any order and overlap cover."""
    real = end > start
    start, end = start[real], end[real]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.empty(len(start), bool)
    first[0] = True
    np.greater(start[1:], end[:-1], out=first[1:])
    return Ranges(start[first], end[np.append(np.flatnonzero(first)[1:] - 1, len(end) - 1)])


def join(*sets: Ranges) -> Ranges:
    """Return the union of all sets."""
    return union(np.concatenate([each.start for each in sets]), np.concatenate([each.end for each in sets]))


def clip(ranges: Ranges, begin: int, end: int) -> Ranges:
    """The part inside [begin, end)."""
    low, high = np.maximum(ranges.start, begin), np.minimum(ranges.end, end)
    keep = high > low
    return Ranges(low[keep], high[keep])


def of(table: Host | DeviceWork, rows: Rows | Mask) -> Ranges:
    """The time that these rows of a table cover."""
    return union(table.start[rows], table.end[rows])


def gaps(ranges: Ranges, begin: int, end: int) -> Ranges:
    """Return the gaps between ranges inside [begin, end)."""
    if end <= begin:
        return EMPTY
    inside = clip(ranges, begin, end)
    start, stop = np.append(begin, inside.end), np.append(inside.start, end)
    keep = stop > start
    return Ranges(start[keep], stop[keep])


def subtract(a: Ranges, b: Ranges) -> Ranges:
    """Return the part of a that b does not cover."""
    if not len(a.start):
        return EMPTY
    return intersect(a, gaps(b, int(a.start[0]), int(a.end[-1])))


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """Return the intersection of both."""
    if not len(a.start) or not len(b.start):
        return EMPTY
    # Range i of a meets those of b from the first that ends after its start to the last before its end.
    first = np.searchsorted(b.end, a.start, side="right")
    last = np.searchsorted(b.start, a.end, side="left")
    number = np.maximum(last - first, 0)
    left = np.repeat(np.arange(len(a.start)), number)
    offset = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    right = first[left] + offset
    return Ranges(np.maximum(a.start[left], b.start[right]), np.minimum(a.end[left], b.end[right]))


def cover_before(ranges: Ranges, at: Ints) -> Ints:
    """For every instant: how many ns before it the set covers."""
    before = np.append(0, np.cumsum(ranges.end - ranges.start))
    index = np.searchsorted(ranges.start, at, side="right")
    whole = before[index]
    over = np.where(index > 0, np.maximum(ranges.end[index - 1] - at, 0) if len(ranges.end) else 0, 0)
    return np.asarray(whole - over, np.int64)


def within(ranges: Ranges, start: Ints, end: Ints) -> Ints:
    """For every window [start, end): ns of it that the set covers."""
    return cover_before(ranges, np.maximum(start, end)) - cover_before(ranges, start)


Codes = NDArray[np.integer[Any]]
Numbers = NDArray[np.number[Any]] | Mask


class Groups(NamedTuple):
    """Rows in groups."""

    of: Index  # per row the number of its group
    codes: tuple[Ints, ...]  # one array a column that was grouped by: per group its code there

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
        codes = [code[pairs // len(values)] for code in codes] + [values[pairs % len(values)]]
    return Groups(of.astype(np.int32), tuple(codes))


def distinct(codes: Codes) -> Ints:
    """The codes that occur, ascending: counted, or sorted if they are far apart. numpy.unique hashes them,
    in ten times as long."""
    if codes.max(initial=0) <= 4 * len(codes) + 1000 and codes.min(initial=0) >= -1:
        return np.flatnonzero(np.bincount(codes.astype(np.int64) + 1)) - 1
    ordered = np.sort(codes).astype(np.int64)
    return np.compress(np.append(True, ordered[1:] != ordered[:-1]), ordered)


def _distinct(codes: Ints) -> tuple[Ints, Ints]:
    """Per row the number of its code, and the codes, ascending."""
    values = distinct(codes)
    if values.max(initial=0) > 4 * len(codes) + 1000:
        return np.searchsorted(values, codes), values
    number = np.zeros(values.max(initial=0) + 2, np.int64)  # -1 is the last
    number[values] = np.arange(len(values))
    return number[codes], values
