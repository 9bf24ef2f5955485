"""The forward part of a step, its backward pass and its optimizer's step."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.editor import Editor
from laptime.tuning.patch.sources import Sources

AROUND = 'script.around_forward("with region():")'
SCALE = 'script.replace_backward("scaler.scale({loss}).backward()")'
STEP = 'script.replace_step("scaler.step({optimizer})\\nscaler.update()")'


def loop(script: Callable[..., Sources], text: str, *sites: tuple[object, ...]) -> Sources:
    """A script with the sites of one model called `model`."""
    text = textwrap.dedent(text).lstrip("\n")
    known = [
        ("forward", "model(x)", {"expression": "model"}),
        ("backward", "loss.backward(", {"expression": "loss"}),
        ("step", "opt.step(", {"expression": "opt"}),
    ]
    return script(text, *(site for site in known if text.count(str(site[1])) == 1), *sites)


def expect(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            """
            for x, y in loader:
                opt.zero_grad(); loss = criterion(model(x), y); loss.backward(); opt.step(); n += 1
            """,
            """
            for x, y in loader:
                opt.zero_grad()
                with region():
                    loss = criterion(model(x), y)
                loss.backward()
                opt.step()
                n += 1
            """,
        ),
        (
            """
            for x, y in loader:
                with torch.autocast("cpu", enabled=args.amp):
                    out = model(x)
                    loss = criterion(out, y)
                loss.backward()
            """,
            """
            for x, y in loader:
                with torch.autocast("cpu", enabled=args.amp):
                    with region():
                        out = model(x)
                        loss = criterion(out, y)
                loss.backward()
            """,
        ),
        (
            """
            for x, y in loader:
                # forward
                out = model(x)  # here

                loss = criterion(out, y)
                opt.zero_grad()
                loss.backward()
            """,
            """
            for x, y in loader:
                # forward
                with region():
                    out = model(x)  # here

                    loss = criterion(out, y)
                opt.zero_grad()
                loss.backward()
            """,
        ),
        (
            """
            for x, y in loader:
                if noisy:
                    loss = model(x)
                else:
                    loss = other(x)
                loss.backward()
            """,
            """
            for x, y in loader:
                with region():
                    if noisy:
                        loss = model(x)
                    else:
                        loss = other(x)
                loss.backward()
            """,
        ),
        (
            """
            for x in loader:
                for t in range(3):
                    h = model(x)
                loss = h.sum()
                loss.backward(retain_graph=True)
            """,
            """
            for x in loader:
                with region():
                    for t in range(3):
                        h = model(x)
                    loss = h.sum()
                loss.backward(retain_graph=True)
            """,
        ),
        (
            """
            def closure():
                opt.zero_grad()
                loss = model(x)
                loss.backward()
                return loss
            """,
            """
            def closure():
                opt.zero_grad()
                with region():
                    loss = model(x)
                loss.backward()
                return loss
            """,
        ),
        (
            '''
            for x in loader:
                loss = model(x) + len("""a
            b""")
                loss.backward()
            ''',
            '''
            for x in loader:
                with region():
                    loss = model(x) + len("""a
            b""")
                loss.backward()
            ''',
        ),
    ],
)
def test_the_header_is_around_forward_and_loss(
    script: Callable[..., Sources], edited: Callable[..., str], text: str, expected: str
) -> None:
    assert edited(loop(script, text), AROUND) == expect(expected)


def test_a_loss_that_goes_backward_at_once_gets_a_name(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "for x, y in loader:\n    criterion(model(x), y).backward()  # at once\n    opt.step()\n"
    sources = loop(script, text, ("backward", "criterion(model(x), y)"))
    expected = (
        "for x, y in loader:\n    with region():\n        loss = criterion(model(x), y)\n"
        "    loss.backward()  # at once\n    opt.step()\n"
    )
    assert edited(sources, AROUND) == expected
    assert edited(sources, SCALE) == expected.replace("loss.backward()", "scaler.scale(loss).backward()")
    found = edited(sources, STEP)
    assert found.endswith("    scaler.step(opt)\n    scaler.update()\n")


def test_the_name_of_the_loss_is_a_new_one(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "loss = make_loss()\nfor x, y in loader:\n    (loss(model(x), y)\n     ).backward()\n"
    found = edited(loop(script, text, ("backward", "(loss(model(x), y)\n     )")), AROUND)
    assert found == (
        "loss = make_loss()\nfor x, y in loader:\n    with region():\n"
        "        step_loss = (loss(model(x), y)\n     )\n    step_loss.backward()\n"
    )


def test_the_argument_of_a_backward_function_is_split_off(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "for x in loader:\n    accelerator.backward(model(x).sum())\n"
    sources = loop(script, text, ("backward", "accelerator.backward("))
    body = "    with region():\n        loss = model(x).sum()\n    accelerator.backward(loss)\n"
    expected = "for x in loader:\n" + body
    assert edited(sources, AROUND) == expected
    with pytest.raises(CannotEdit, match="by `accelerator`"):
        edited(sources, SCALE)


def test_a_call_that_leads_to_the_model_stands_for_it(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = """
        def predict(model, x):
            return model(x)
        def compute(model, x):
            return predict(model, x).mean()
        def train(model, loader):
            for x in loader:
                loss = compute(model, x)
                loss.backward()
        """
    sites = (
        "forward",
        "model(x)\ndef compute",
        {"expression": "model", "function": "predict", "end_line": 2},
    )
    sources = script(
        expect(text), sites, ("backward", "loss.backward(", {"expression": "loss", "function": "train"})
    )
    assert "        with region():\n            loss = compute(model, x)\n" in edited(sources, AROUND)


def test_a_call_that_leads_to_the_backward_pass_ends_the_region(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = """
        def step(loss, opt):
            loss.backward()
            opt.step()
        for x in loader:
            loss = model(x)
            step(loss, opt)
        """
    sources = script(
        expect(text),
        ("forward", "model(x)", {"expression": "model", "function": "<module>"}),
        ("backward", "loss.backward(", {"expression": "loss", "function": "step"}),
    )
    assert "    with region():\n        loss = model(x)\n    step(loss, opt)\n" in edited(sources, AROUND)


def test_a_backward_pass_in_a_library_is_refused(script: Callable[..., Sources]) -> None:
    sources = script("trainer.fit(model)\n", ("forward", "trainer.fit", {"expression": "model"}))
    with pytest.raises(CannotEdit, match="backward pass"):
        Editor(sources).around_forward("with region():")


def test_evaluation_in_the_same_loop_stays_outside(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = """
        for x in loader:
            with torch.no_grad():
                before = model(x.clone())
            loss = model(x)
            loss.backward()
        """
    found = edited(loop(script, text), AROUND)
    assert "before = model(x.clone())\n    with region():\n        loss = model(x)\n" in found


def test_a_step_in_a_line_with_others_stays_in_it(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "for x in loader:\n    if due: opt.step(); opt.zero_grad()\n"
    found = edited(loop(script, text), STEP)
    assert found == "for x in loader:\n    if due: scaler.step(opt); scaler.update(); opt.zero_grad()\n"


def test_a_step_with_a_closure_or_a_used_result_is_refused(script: Callable[..., Sources]) -> None:
    for text in ("opt.step(closure)\n", "value = opt.step()\n"):
        with pytest.raises(CannotEdit, match=r"closure|is used"):
            Editor(loop(script, text)).replace_step("scaler.step({optimizer})")


def test_arguments_of_the_backward_call_are_kept(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    found = edited(loop(script, "loss.backward(retain_graph=True)\n"), SCALE)
    assert found == "scaler.scale(loss).backward(retain_graph=True)\n"


def test_gradients_are_unscaled_once_before_the_step(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "for x in loader:\n    a.backward()\n    b.backward()\n    clip()\n    opt.step()\n"
    sources = loop(script, text, ("backward", "a.backward"), ("backward", "b.backward"))
    code = 'script.replace_backward("scaler.scale({loss}).backward()\\nscaler.unscale_({optimizer})")'
    assert edited(sources, code) == (
        "for x in loader:\n    scaler.scale(a).backward()\n    scaler.scale(b).backward()\n"
        "    scaler.unscale_(opt)\n    clip()\n    opt.step()\n"
    )


def test_the_kind_of_device_is_written_or_asked_for(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "for x in loader:\n    loss = model(x)\n    loss.backward()\n"
    code = 'script.around_forward("with region({device!r}):")'
    assert 'with region("cpu"):' in edited(loop(script, text), code)
    sources = loop(script, text)
    sources.device = ""
    assert "with region(next(model.parameters()).device.type):" in edited(sources, code)


def test_where_the_call_has_no_statement_the_forward_pass_itself_is_in_bfloat16(
    script: Callable[..., Sources],
) -> None:
    text = """
        import torch
        model = Net()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            if x.size(0): criterion(model(x), y).backward()
            opt.step()
        """
    sites = [
        ("forward", "model(x)", {"expression": "model"}),
        ("backward", "criterion(model(x), y).backward("),
        ("optimizer", "torch.optim.SGD", {"detail": "SGD"}),
        ("model", "opt = torch.optim", {"expression": "model"}),
    ]
    sources = script(text, *sites)
    sources.apply(Change("bf16_autocast"))
    (file,) = sources.files.values()
    wanted = "model.forward = in_bfloat16(model.forward, next(model.parameters()).device.type)\n"
    assert wanted in file.text
    assert file.text.index("lr=0.1") < file.text.index(wanted) < file.text.index("for x, y")
    assert "if x.size(0): criterion(model(x), y).backward()\n" in file.text
    assert file.text.count("def in_bfloat16(") == file.text.count("import torch\n") == 1
