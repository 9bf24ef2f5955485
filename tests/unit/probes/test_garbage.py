"""Garbage collections beside samples."""

from __future__ import annotations

import gc
import time

import pytest

from laptime.probes.garbage import Collections


def test_a_collection_is_recorded_with_start_and_end() -> None:
    with Collections() as collections:
        before = time.perf_counter()
        gc.collect()
        after = time.perf_counter()
    assert collections.starts
    assert before <= collections.starts[-1] <= collections.stops[-1] <= after


def test_nothing_is_recorded_after_leaving() -> None:
    with Collections() as collections:
        pass
    gc.collect()
    assert collections.starts == []


def test_only_samples_that_a_collection_overlaps_are_hit() -> None:
    collections = Collections()
    collections.starts, collections.stops = [1.5, 3.9], [1.6, 4.2]
    inside = collections.inside([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 6)
    assert inside == pytest.approx([0.0, 0.1, 0.0, 0.1, 0.2, 0.0])


def test_two_collections_in_one_sample_are_summed() -> None:
    collections = Collections()
    collections.starts, collections.stops = [1.1, 1.5], [1.2, 1.8]
    assert collections.inside([1.0], [1.0]) == pytest.approx([0.4])
