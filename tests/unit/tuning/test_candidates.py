"""What the catalogue offers for a loop profile, and why the rest is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.tuning import optimization
from laptime.tuning.candidates import Choice, Costs, facts_of, find_candidates, numerics_of, suspects
from laptime.tuning.loop_profile import LoopProfile, Site
from laptime.tuning.optimization import Change, Recipe

CONVOLUTIONS = LoopProfile(
    step=1.0,
    shares={"data": 0.3, "forward": 0.3, "backward": 0.35, "optimizer": 0.05},
    batch=32,
    cpus=4,
    threads=4,
    memory=8 << 30,
    shm=8 << 30,
    batch_bytes=1 << 20,
    loader={"num_workers": 0, "batch_size": 32},
    loader_seconds=0.3,
    dataset_length=10_000,
    sample_bytes=1 << 15,
    optimizer={"class": "SGD", "lr": 0.1},
    facts=frozenset({"cpu", "conv", "batchnorm", "loader", "map_dataset", "sgd", "gcc"}),
)


def names(loop_profile: LoopProfile, recipe: Recipe = Recipe(), **choice: object) -> set[str]:  # noqa: B008
    found = find_candidates(loop_profile, recipe, Choice(**choice), Costs())  # type: ignore[arg-type]
    return {each.change.name for each in found.usable}


def test_every_name_is_offered_or_ruled_out_with_a_reason() -> None:
    found = find_candidates(CONVOLUTIONS, Recipe(), Choice(), Costs())
    told = {each.change.name for each in found.usable} | set(found.ruled_out)
    assert told == set(registry.names("optimizations"))
    assert all(found.ruled_out.values())


def test_facts_decide() -> None:
    assert "channels_last" in names(CONVOLUTIONS)
    assert "channels_last" not in names(replace(CONVOLUTIONS, facts=CONVOLUTIONS.facts - {"conv"}))
    assert "channels_last" not in names(replace(CONVOLUTIONS, facts=CONVOLUTIONS.facts | {"channels_last"}))
    assert "bf16_autocast" not in names(CONVOLUTIONS)
    assert "bf16_autocast" in names(replace(CONVOLUTIONS, facts=CONVOLUTIONS.facts | {"bf16"}))


def test_strict_leaves_out_what_changes_numbers() -> None:
    loop_profile = replace(CONVOLUTIONS, facts=CONVOLUTIONS.facts | {"bf16", "random_transforms"})
    assert "bf16_autocast" in names(loop_profile)
    strict = find_candidates(loop_profile, Recipe(), Choice(strict=True), Costs())
    assert {each.numerics for each in strict.usable} <= {"exact", "reassociated"}
    assert "--strict" in strict.ruled_out["bf16_autocast"]


def test_algorithm_is_tried_only_when_it_is_allowed() -> None:
    faster = replace(CONVOLUTIONS, what_if={"whole": 1.0, "half_batch": 0.7, "double_batch": 1.2})
    assert "batch_size" not in names(faster)
    assert "--allow algorithm" in find_candidates(faster, Recipe(), Choice(), Costs()).ruled_out["batch_size"]
    assert "batch_size" in names(faster, allow=("algorithm",))


def test_only_and_skip_keep_the_control() -> None:
    assert names(CONVOLUTIONS, only=("channels_last",)) == {"channels_last", "identity"}
    assert "channels_last" not in names(CONVOLUTIONS, skip=("channels_last",))


def test_what_is_kept_is_offered_only_with_other_options() -> None:
    kept = Recipe((Change("channels_last"),))
    with_it = replace(CONVOLUTIONS, facts=CONVOLUTIONS.facts | {"channels_last"})
    assert find_candidates(with_it, kept, Choice(), Costs()).ruled_out["channels_last"] == "kept already"
    workers = Recipe((Change("num_workers", {"num_workers": 2}),))
    again = find_candidates(CONVOLUTIONS, workers, Choice(), Costs())
    options = [each.change.options for each in again.usable if each.change.name == "num_workers"]
    assert options
    assert {"num_workers": 2} not in options


def test_what_another_change_would_give_is_waited_for() -> None:
    workers = Recipe((Change("num_workers", {"num_workers": 2}),))
    assert "workers" in facts_of(workers)
    waiting = find_candidates(CONVOLUTIONS, Recipe(), Choice(), Costs())
    persistent = [each for each in waiting.usable if each.change.name == "persistent_workers"]
    assert not persistent or "workers" in persistent[0].needs
    alone = find_candidates(CONVOLUTIONS, Recipe(), Choice(only=("persistent_workers",)), Costs())
    assert "no workers" in alone.ruled_out["persistent_workers"]


def test_a_recipe_is_as_far_reaching_as_its_farthest_change() -> None:
    assert numerics_of(Recipe(), CONVOLUTIONS) == "exact"
    assert numerics_of(Recipe((Change("channels_last"),)), CONVOLUTIONS) == "reassociated"
    both = Recipe((Change("bf16_autocast"), Change("channels_last")))
    assert numerics_of(both, CONVOLUTIONS) == "precision"


def test_an_optimization_of_ones_own_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from laptime.tuning.optimization import Optimization\n"
        "def apply(loop, options): pass\n"
        "def edit(script, options): pass\n"
        "OPTIMIZATION = Optimization(title='mine', numerics='exact', live=True,\n"
        "    saves=lambda loop_profile, options: 0.5, apply=apply, edit=edit)\n"
    )
    assert str(own) in names(CONVOLUTIONS, extra=(str(own),))
    with pytest.raises(UsageError, match="no optimization"):
        optimization.load(str(tmp_path / "other.py"))
    own.write_text("TITLE = 'mine'\nNUMERICS = 'exact'\n")  # as it was written until the object came
    with pytest.raises(UsageError, match="an optimization") as old:
        optimization.load(str(own))
    assert "OPTIMIZATION = Optimization(title=" in old.value.next
    own.write_text("1 / 0")
    with pytest.raises(UsageError, match="is broken"):
        optimization.load(str(own))


def test_a_change_is_written_as_people_type_it() -> None:
    assert str(Change("channels_last")) == "channels_last"
    assert str(Change("threads", {"threads": 2})) == "threads=2"
    assert str(Change("compile", {"mode": "max-autotune"})) == "compile mode=max-autotune"
    recipe = Recipe((Change("a"), Change("b", {"x": 1})))
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.plus(Change("a", {"y": 2})).names == ("a", "b")
    assert recipe.without("a").names == ("b",)


def suspected(loop_profile: LoopProfile, **choice: object) -> list[str]:
    found = suspects(loop_profile, Recipe(), Choice(**choice))  # type: ignore[arg-type]
    return [each.change.name for each, _ in found]


def test_what_may_save_most_is_suspected_first_whatever_its_race_costs() -> None:
    chain = {"operators": {"count": 300, "fusable": 0.98}, "page_faults": 0}
    small = replace(CONVOLUTIONS, shares={"forward": 0.4, "backward": 0.55, "data": 0.05}, details=chain)
    facts = frozenset({"cpu", "sgd", "gcc", "loader", "map_dataset"})
    assert suspected(replace(small, facts=facts, loader_seconds=0.05))[0] == "compile"
    starved = replace(CONVOLUTIONS, shares={"data": 0.9, "forward": 0.05, "backward": 0.05})
    assert suspected(starved)[0] in ("num_workers", "cache_dataset")
    assert "num_workers" not in suspected(starved, skip=("num_workers",))


def test_what_cannot_matter_is_no_suspect() -> None:
    quick = replace(CONVOLUTIONS, shares={"forward": 0.5, "backward": 0.49, "optimizer": 0.01})
    assert "fused_optimizer" not in suspected(quick)
    assert "identity" not in suspected(quick)


def test_what_is_only_suggested_can_be_suspected() -> None:
    site = Site("sync", "train.py", 3, "main", detail="item")
    chatty = replace(
        CONVOLUTIONS,
        shares={"forward": 0.2, "backward": 0.2, "other": 0.6},
        syncs=(site,),
        facts=CONVOLUTIONS.facts | {"syncs_every_step"},
    )
    found = suspects(chatty, Recipe(), Choice())
    assert [suggests for each, suggests in found if each.change.name == "defer_logging"] == [True]


def test_a_change_beside_one_that_compiles_pays_for_compiling() -> None:
    """The graph is compiled anew under it; a race of two minutes was begun where seconds were left."""
    costs = Costs(compiling=100.0)

    def start(recipe: Recipe) -> float:
        usable = find_candidates(CONVOLUTIONS, recipe, Choice(), costs).usable
        return next(one.start for one in usable if one.change.name == "channels_last")

    assert start(Recipe((Change("compile"),))) == start(Recipe()) + 100.0


def made(**given: Any) -> optimization.Optimization:
    functions = {"apply": lambda loop, options: None, "edit": lambda script, options: None}
    return optimization.Optimization(
        title="made up", numerics="random", **{"saves": {}, **functions, **given}
    )


def test_shares_or_a_function_bound_what_is_saved() -> None:
    shares = made(saves={"forward": 0.5, "backward": 0.25})
    parts = 0.5 * CONVOLUTIONS.share("forward") + 0.25 * CONVOLUTIONS.share("backward")
    assert shares.bound(CONVOLUTIONS, {}) == pytest.approx(parts)
    function = made(saves=lambda loop_profile, options: options["value"] * 0.5)
    assert function.bound(CONVOLUTIONS, {"value": 3}) == 1.5
    assert made().bound(CONVOLUTIONS, {}) == 0.0


def test_without_options_of_its_own_it_is_proposed_unless_it_has_a_reason() -> None:
    assert made().offer(CONVOLUTIONS) == [{}]
    assert made(why_not=lambda loop_profile: "never").offer(CONVOLUTIONS) == []
    both = made(why_not=lambda loop_profile: "never", propose=lambda loop_profile: [{"value": 2}])
    assert both.offer(CONVOLUTIONS) == [{"value": 2}]


def test_a_finer_class_takes_the_place_of_its_own() -> None:
    assert made().numerics_in(CONVOLUTIONS, {}) == "random"
    finer = made(finer=lambda loop_profile, options: options["class"])
    assert finer.numerics_in(CONVOLUTIONS, {"class": "exact"}) == "exact"


def test_what_it_gives_is_its_own_name_unless_it_says_otherwise() -> None:
    assert made(name="mine").given_facts == {"mine"}
    assert made(name="mine", gives=frozenset()).given_facts == frozenset()
    assert optimization.load("compile_max_autotune").given_facts == {"compiled"}


@pytest.mark.parametrize("wrong", [{"need": frozenset()}, {"TOGGLE": "live"}])
def test_a_misspelt_field_is_an_error_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        made(**wrong)
