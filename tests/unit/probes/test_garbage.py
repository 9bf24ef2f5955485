"""Garbage collections beside samples."""

from __future__ import annotations

import gc
import time

import pytest

from laptime.probes import TimedBlock
from laptime.probes.garbage import GarbageWatch
from laptime.records.series import Label

EMPTY = TimedBlock("isolated", [], [], [])


def test_a_collection_is_recorded_with_start_and_end() -> None:
    watch = GarbageWatch()
    watch.begin()
    before = time.perf_counter()
    gc.collect()
    after = time.perf_counter()
    watch.end(EMPTY)
    assert watch.starts
    assert before <= watch.starts[-1] <= watch.stops[-1] <= after


def test_nothing_is_recorded_after_the_end() -> None:
    watch = GarbageWatch()
    watch.begin()
    watch.end(EMPTY)
    gc.collect()
    assert watch.starts == []


def test_samples_that_a_collection_overlaps_are_labelled() -> None:
    watch = GarbageWatch()
    watch.begin()
    watch.starts, watch.stops = [1.5], [1.6]
    block = TimedBlock("isolated", [0.0, 1.0], [1.0, 1.0], [0, 0])
    assert watch.end(block) == []
    assert block.label == [0, Label.GC]


def test_only_samples_that_a_collection_overlaps_are_hit() -> None:
    watch = GarbageWatch()
    watch.starts, watch.stops = [1.5, 3.9], [1.6, 4.2]
    inside = watch.inside([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 6)
    assert inside == pytest.approx([0.0, 0.1, 0.0, 0.1, 0.2, 0.0])


def test_two_collections_in_one_sample_are_summed() -> None:
    watch = GarbageWatch()
    watch.starts, watch.stops = [1.1, 1.5], [1.2, 1.8]
    assert watch.inside([1.0], [1.0]) == pytest.approx([0.4])
