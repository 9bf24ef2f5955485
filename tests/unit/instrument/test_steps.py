"""Steps of loops written down as the signals they give: where each ends, and what is in none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from laptime.instrument.steps import Cut, Steps

TRAIN, SECOND, VALID = 11, 12, 13
MODEL, OTHER = 21, 22
SGD, G, D = 31, 32, 33


class Loop:
    """Gives signals and remembers which of them belong to complete steps."""

    def __init__(self, source: str = "") -> None:
        self.steps = Steps(source)
        self.complete: list[list[str]] = []
        self.dropped = 0
        self.source: list[str] = []
        self._open: list[str] | None = None

    def __call__(self, word: str, number: int = 0) -> None:
        before = self.steps.source
        cut = Cut.NOTHING
        if word in ("fetch", "exhaust", "forward"):
            cut = getattr(self.steps, word)(number)
            self._cut(cut, before)
            self._note(f"{word} {number}")
        elif word == "optimizer":
            self._note(f"{word} {number}")
            self._cut(self.steps.optimizer(number), before)
        else:
            getattr(self.steps, word)()
            self._note(word)

    def _note(self, text: str) -> None:
        if self._open is not None:
            self._open.append(text)

    def _cut(self, cut: int, before: str) -> None:
        if self.steps.source != before:
            self.complete, self._open = [], None
        if cut & Cut.ENDS:
            assert self._open is not None
            self.complete.append(self._open)
        self.dropped += bool(cut & Cut.DROPS)
        if cut & (Cut.ENDS | Cut.DROPS):
            self._open = None
        if cut & Cut.BEGINS:
            self._open = []

    def train(self, loader: int = TRAIN, optimizers: Iterable[int] = (SGD,), micro: int = 1) -> None:
        for _ in range(micro):
            self("fetch", loader)
            self("forward", MODEL)
            self("backward")
        for optimizer in optimizers:
            self("optimizer", optimizer)

    def evaluate(self, batches: int, loader: int = VALID) -> None:
        for _ in range(batches):
            self("fetch", loader)
            self("forward", MODEL)
        self("exhaust", loader)


def times(number: int, do: Callable[[], object]) -> None:
    for _ in range(number):
        do()


STEP = [f"fetch {TRAIN}", f"forward {MODEL}", "backward", f"optimizer {SGD}"]


def test_a_plain_training_loop_has_a_step_a_batch() -> None:
    loop = Loop()
    times(5, loop.train)
    assert loop.steps.source == "optimizer"
    assert loop.complete == [STEP] * 3  # the first finds the optimizer, the last has not ended


def test_gradient_accumulation_is_one_step_an_optimizer_step() -> None:
    loop = Loop()
    times(4, lambda: loop.train(micro=3))
    assert loop.complete == [[*STEP[:3] * 3, STEP[3]]] * 2


def test_micro_batches_fetched_together_are_one_step() -> None:
    loop = Loop()

    def step() -> None:
        times(4, lambda: loop("fetch", TRAIN))
        for _ in range(4):
            loop("forward", MODEL)
            loop("backward")
        loop("optimizer", SGD)

    times(4, step)
    assert [step.count("backward") for step in loop.complete] == [4, 4]


def test_both_optimizers_of_a_gan_are_one_step() -> None:
    loop = Loop()
    times(4, lambda: loop.train(optimizers=(D, G)))
    assert [step[-2:] for step in loop.complete] == [[f"optimizer {D}", f"optimizer {G}"]] * 2


def test_a_gan_without_a_loader_ends_its_steps_with_its_last_optimizer() -> None:
    loop = Loop()

    def step() -> None:
        for optimizer in (D, G):
            loop("forward", MODEL)
            loop("backward")
            loop("optimizer", optimizer)

    times(8, step)
    assert len(loop.complete) >= 3
    assert {tuple(each) for each in loop.complete} == {
        (f"forward {MODEL}", "backward", f"optimizer {D}", f"forward {MODEL}", "backward", f"optimizer {G}")
    }


def test_training_on_one_batch_fetched_once_needs_no_loader() -> None:
    loop = Loop()
    loop("optimizer_made")
    loop("fetch", TRAIN)

    def step() -> None:
        loop("forward", MODEL)
        loop("backward")
        loop("optimizer", SGD)

    times(8, step)
    assert loop.complete
    assert {tuple(each) for each in loop.complete} == {(f"forward {MODEL}", "backward", f"optimizer {SGD}")}


def test_evaluation_between_epochs_is_in_no_step() -> None:
    loop = Loop()
    for _ in range(3):
        times(3, loop.train)
        loop("exhaust", TRAIN)
        loop.evaluate(4)
    assert loop.complete == [STEP] * (2 + 3 + 3)
    assert loop.dropped == 0


def test_evaluation_in_the_middle_of_an_epoch_is_in_no_step() -> None:
    loop = Loop()
    for _ in range(3):
        times(4, loop.train)
        loop.evaluate(2)
    assert loop.complete == [STEP] * (3 + 4 + 4)


def test_evaluation_before_training_is_not_taken_for_inference() -> None:
    loop = Loop()
    loop("optimizer_made")
    loop.evaluate(10)
    assert loop.steps.source == ""
    times(4, loop.train)
    assert loop.complete == [STEP] * 2


def test_evaluation_on_the_training_loader_spoils_only_the_step_it_is_in() -> None:
    loop = Loop()
    for _ in range(2):
        times(3, loop.train)
        loop("exhaust", TRAIN)
        loop.evaluate(3, loader=TRAIN)
    times(2, loop.train)
    assert all(step == STEP for step in loop.complete)
    assert len(loop.complete) == 2 + 3 + 1


def test_two_loaders_of_one_step_are_both_of_training() -> None:
    loop = Loop()

    def step() -> None:
        loop("fetch", SECOND)
        loop.train()

    times(5, step)
    assert loop.complete == [[f"fetch {SECOND}", *STEP]] * 3


def test_a_batch_fetched_ahead_still_makes_one_step() -> None:
    loop = Loop()
    loop("fetch", TRAIN)

    def step() -> None:
        loop("fetch", TRAIN)  # the next one
        loop("forward", MODEL)
        loop("backward")
        loop("optimizer", SGD)

    times(5, step)
    assert loop.complete == [STEP] * 3


def test_an_optimizer_with_a_closure_needs_no_backward_outside() -> None:
    loop = Loop()

    def step() -> None:
        loop("fetch", TRAIN)
        loop("optimizer", SGD)

    times(4, step)
    assert loop.complete == [[f"fetch {TRAIN}", f"optimizer {SGD}"]] * 2


def test_inference_from_a_loader_has_a_step_a_batch() -> None:
    loop = Loop()
    loop.evaluate(5)
    loop.evaluate(2)
    assert loop.steps.source == "loader"
    assert loop.complete == [[f"fetch {VALID}", f"forward {MODEL}"]] * (4 + 2)


def test_training_without_a_torch_optimizer_has_a_step_a_batch_of_its_loader() -> None:
    loop = Loop()
    for _ in range(2):
        times(3, lambda: loop.train(optimizers=()))
        loop("exhaust", TRAIN)
        loop.evaluate(3)
    assert loop.complete == [STEP[:3]] * (2 + 3)


def test_forward_calls_are_steps_where_there_is_nothing_else() -> None:
    loop = Loop()
    times(4, lambda: (loop("forward", MODEL), loop("forward", OTHER))[0])
    assert loop.steps.source == "forward"
    assert loop.complete == [[f"forward {MODEL}", f"forward {OTHER}"]] * 3


def test_one_batch_called_again_and_again_is_stepped_by_its_calls() -> None:
    loop = Loop()
    loop("fetch", TRAIN)
    times(4, lambda: loop("forward", MODEL))
    assert loop.complete == [[f"forward {MODEL}"]] * 3


def test_a_model_called_once_to_warm_up_does_not_lead_for_ever() -> None:
    loop = Loop()
    loop("forward", OTHER)
    times(20, lambda: loop("forward", MODEL))
    assert loop.complete[-1] == [f"forward {MODEL}"]
    assert len(loop.complete) >= 9


@pytest.mark.parametrize("source", ["forward", "loader"])
def test_a_wanted_source_is_the_only_one(source: str) -> None:
    loop = Loop(source)
    times(5, loop.train)
    assert loop.steps.source == source
    assert len(loop.complete) >= 3
    assert all(step.count(f"optimizer {SGD}") == 1 for step in loop.complete)


def test_what_was_seen_is_counted() -> None:
    loop = Loop()
    times(2, loop.train)
    assert loop.steps.seen == {"fetch": 2, "forward": 2, "backward": 2, "optimizer": 2}


def ahead(loop: Loop, *, micro: int = 1) -> None:
    """A step of a loop written for GPUs: the next batch is fetched while the graph is alive."""
    for _ in range(micro):
        loop("forward", MODEL)
        loop("fetch", TRAIN)
        loop("backward")
    loop("optimizer", SGD)


@pytest.mark.parametrize("micro", [1, 4])
def test_a_batch_fetched_before_the_backward_pass_ends_no_step(micro: int) -> None:
    loop = Loop()
    loop("fetch", TRAIN)
    times(6, lambda: ahead(loop, micro=micro))
    loop("exhaust", TRAIN)  # and made anew, in the middle of a step
    times(3, lambda: ahead(loop, micro=micro))
    step = [*[f"forward {MODEL}", f"fetch {TRAIN}", "backward"] * micro, f"optimizer {SGD}"]
    whole = [[word for word in each if not word.startswith("exhaust")] for each in loop.complete]
    assert whole[0] == step
    assert [each.count("backward") for each in whole] == [micro] * 7


def test_evaluation_inside_a_loop_that_fetches_ahead_is_in_no_step() -> None:
    loop = Loop()
    loop("fetch", TRAIN)
    times(6, lambda: ahead(loop))
    for _ in range(3):
        loop("fetch", VALID)
        loop.steps.forward(MODEL, graded=False)
    times(4, lambda: ahead(loop))
    assert len(loop.complete) == 4 + 3
    assert loop.dropped == 1


@pytest.mark.parametrize("apart", ["validates", "validates with gradients", "samples", "saves"])
def test_what_few_steps_do_beside_training_is_in_no_step(apart: str) -> None:
    loop = Loop()
    for _ in range(3):
        times(6, loop.train)
        if apart == "validates":
            times(5, lambda: loop.steps.forward(MODEL, graded=False))
        elif apart == "validates with gradients":
            times(5, lambda: loop.steps.forward(MODEL, trains=False))
        elif apart == "samples":  # from averaged weights, which were never trained
            times(5, lambda: loop.steps.forward(OTHER, graded=False))
        else:
            loop("apart")
    loop.train()
    assert loop.dropped == 3
    assert {tuple(step) for step in loop.complete} == {tuple(STEP)}


def test_calls_without_gradients_in_every_step_belong_to_it() -> None:
    loop = Loop()

    def step() -> None:
        loop.train()
        loop.steps.forward(MODEL, graded=False)

    times(6, step)
    assert (len(loop.complete), loop.dropped) == (4, 0)
