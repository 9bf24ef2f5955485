"""No profile, however strange, makes a rule raise, promise more than a loop takes, or name what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from fixtures import diagnosed
from laptime import rules
from laptime.kit.registry import load, names
from laptime.records.profile import Profile
from laptime.rules._reading import turn

WORDS = [
    "",
    "aten::mm",
    "aten::_softmax",
    "aten::bmm",
    "aten::item",
    "aten::select",
    "aten::_slow_conv2d_forward",
    "ncclDevKernel_AllReduce",
    "nchwToNhwcKernel",
    "Optimizer.step#Adam.step",
    "Optimizer.zero_grad#SGD.zero_grad",
    "DataParallel.forward",
    "DistributedDataParallel.forward",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "_compile.compile_inner (dynamo_timed)",
    "Torch-Compiled Region: 0/7",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    "[[8, 12, 512, 512], []]",
    "[[7, 9], [9, 11]]",
    '["float"]',
    '["c10::Half"]',
    "[[",
    "8.0",
    "cuda",
    "cuda:0",
    "pageable",
    "HtoD",
    "cudaMalloc",
    "reorder",
    "data",
]
_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 10**12))


def plain(kind: types.Type) -> st.SearchStrategy[Any]:
    """Values of a record's type as JSON would write them."""
    if isinstance(kind, types.StructType):
        fields = {field.encode_name: plain(field.type) for field in kind.fields}
        if kind.array_like:
            return st.tuples(*fields.values()).map(list)
        return st.fixed_dictionaries(fields)
    if isinstance(kind, types.ListType):
        return st.lists(plain(kind.item_type), max_size=3)
    if isinstance(kind, types.TupleType):
        return st.tuples(*(plain(each) for each in kind.item_types)).map(list)
    if isinstance(kind, types.DictType):
        return st.dictionaries(
            st.sampled_from([*WORDS, "usable_cpus", "isa"]), plain(kind.value_type), max_size=2
        )
    if isinstance(kind, types.UnionType):
        return st.one_of(*(plain(each) for each in kind.types))
    if isinstance(kind, types.LiteralType):
        return st.sampled_from(sorted(kind.values))
    simple: dict[type, st.SearchStrategy[Any]] = {
        types.IntType: _NUMBERS,
        types.FloatType: st.one_of(st.floats(0, 1), st.floats(0, 1e12)),
        types.BoolType: st.booleans(),
        types.StrType: st.sampled_from(WORDS),
        types.NoneType: st.none(),
    }
    return simple[type(kind)]


def overview_and(*wanted: str) -> st.SearchStrategy[Profile]:
    """Profiles with an overview and these fields drawn, the rest empty."""
    record = types.type_info(Profile)
    assert isinstance(record, types.StructType)
    fields = {
        f.encode_name: plain(f.type) for f in record.fields if f.encode_name in ("files", "overview", *wanted)
    }
    return st.fixed_dictionaries(fields).map(lambda drawn: msgspec.convert(drawn, Profile, strict=False))


PROFILES = st.one_of(
    overview_and("device_type", "accelerators", "operators", "operators_by_shape", "annotations", "kernels"),
    overview_and("window_ns", "steps", "annotations", "launches", "copies", "memory", "ranks", "stragglers"),
    overview_and("window_ns", "steps", "reconciled", "primitives", "facts", "operators"),
)
SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@SLOWLY
@given(PROFILES)
def test_rules_stand_any_profile(profile: Profile) -> None:
    for name in names("rules"):
        found = load("rules", name).rule(profile)
        if found is None:
            continue
        assert found.gain is None or found.gain <= diagnosed.measured(found) * (1 + 1e-9)
        assert found.sentence
        assert found.gain is None or 0.0 <= found.gain <= turn(profile) * (1 + 1e-9)
        assert found.severity != "problem" or profile.overview.steps >= 2
        msgspec.json.encode(found)


@pytest.mark.parametrize("name", sorted(diagnosed.firing()))
def test_a_gain_never_exceeds_what_its_own_evidence_sums_to(name: str) -> None:
    profile = diagnosed.firing()[name]
    found = load("rules", name).rule(profile)
    assert found is not None
    assert found.gain is None or found.gain <= diagnosed.measured(found) * (1 + 1e-9)
    for settled in rules.diagnose(profile):
        assert settled.gain is None or settled.gain <= diagnosed.within_pools(profile, settled) * (1 + 1e-9)


@SLOWLY
@given(PROFILES)
def test_no_rules_gain_exceeds_the_time_that_it_can_reach(profile: Profile) -> None:
    for found in rules.diagnose(profile):
        assert found.gain is None or found.gain <= diagnosed.within_pools(profile, found) * (1 + 1e-9)


@SLOWLY
@given(PROFILES)
def test_the_verdict_stands_any_profile(profile: Profile) -> None:
    found = rules.verdict(profile)
    assert found.sentence
    assert found.share is None or found.share >= 0.0


@settings(max_examples=50, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={cause: st.floats(0, 15) for cause in ("data", "host", "synchronisation", "copy", "other")},
    ),
    st.floats(0, 20),
)
def test_shares_of_the_step_sum_to_one(idle: dict[str, Any], communication: float) -> None:
    profile = diagnosed.gpu(communication=communication, **idle)
    from laptime.rules._verdict import shares

    assert abs(sum(shares(profile).values()) - 1.0) < 1e-6
