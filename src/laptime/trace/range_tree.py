"""Which range lies in which: a tree over host ranges, by thread and time containment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.trace.columns import NONE, Host, HostKind, Index, Ints, Mask


class RangeTree(NamedTuple):
    """A tree over rows of `Host`.

    Attributes:
        rows: host rows that take part, ascending; everything below is per host row.
        parent: host row of the innermost range around it, NONE for roots and for rows that take no part.
        depth: 0 for roots, NONE for rows that take no part.
    """

    rows: Index
    parent: Index
    depth: Index


def build(host: Host, take: Mask) -> RangeTree:
    """The tree over the rows in `take`.

    Ranges that cross (start inside another and end after it) lie in the one they start in; what starts in
    both lies in the later one.
    """
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
    own_parent = _parents(start, end, thread)
    parent[rows] = np.where(own_parent >= 0, rows[np.maximum(own_parent, 0)], NONE)
    depth[rows] = _depths(own_parent)
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
    descendants, and these before whatever follows.

    Attributes:
        rows: those of the tree. end: per row of `rows`: where its descendants end there.
    """

    rows: Index
    end: Ints

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


def _parents(start: Ints, end: Ints, thread: Index) -> Ints:
    """Per range, sorted by (thread, start, -end): the last before it on its thread that is open at its start.

    Who climbs from the range before it over what has ended may skip all that ended no later than where it is.
    """
    number = len(start)
    before = np.arange(-1, number - 1)
    before[np.append(True, thread[1:] != thread[:-1])] = NONE
    longer, todo = before.copy(), np.flatnonzero(before >= 0)
    while len(todo := todo[end[longer[todo]] <= end[todo]]):  # each time twice as far
        longer[todo] = longer[longer[todo]]
        todo = todo[longer[todo] >= 0]
    parent, todo = before, np.flatnonzero(before >= 0)
    while len(todo := todo[end[parent[todo]] <= start[todo]]):
        parent[todo] = longer[parent[todo]]
        todo = todo[parent[todo] >= 0]
    return parent


def _depths(parent: Ints) -> Index:
    """How many ancestors each row has."""
    above, depth = parent.copy(), (parent >= 0).astype(np.int32)
    while len(todo := np.flatnonzero(above >= 0)):  # each time twice as far up
        depth[todo] += depth[above[todo]]
        above[todo] = above[above[todo]]
    return depth
