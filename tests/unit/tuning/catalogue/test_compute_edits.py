"""What optimizations of computing ask of the user's source."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from laptime.tuning import optimization
from laptime.tuning.optimization import CannotEdit


class Asked:
    """Implements `patch.editor.Editor` as far as these optimizations use it; keeps what it was asked."""

    def __init__(self, *sites: str) -> None:
        self.sites = sites
        self.asked: list[tuple[Any, ...]] = []
        self.comment = ""

    def has_site(self, kind: str) -> bool:
        return kind in self.sites

    def set_arguments(self, kind: str, **arguments: str) -> None:
        for value in arguments.values():
            ast.parse(value, mode="eval")
        self.asked.append(("set_arguments", kind, arguments))

    def remove_argument(self, kind: str, name: str) -> None:
        self.asked.append(("remove_argument", kind, name))

    def at_start(self, statement: str, *imports: str) -> None:
        ast.parse("\n".join([*imports, statement]))
        self.asked.append(("at_start", statement, *imports))

    def define(self, code: str, *imports: str) -> None:
        ast.parse("\n".join([*imports, code]))
        self.asked.append(("define", code, *imports))

    def after_model(self, statement: str) -> None:
        ast.parse(statement.replace("{model}", "net"))
        self.asked.append(("after_model", statement))

    def after_optimizer(self, statement: str) -> None:
        ast.parse(statement.replace("{optimizer}", "opt"))
        self.asked.append(("after_optimizer", statement))

    def around_forward(self, header: str) -> None:
        ast.parse(header.format(device="cpu") + "\n    pass")
        self.asked.append(("around_forward", header))

    def replace_backward(self, template: str) -> None:
        self.asked.append(("replace_backward", template))

    def replace_step(self, template: str) -> None:
        self.asked.append(("replace_step", template))


def asked(name: str, options: dict[str, Any] | None = None, *sites: str) -> list[tuple[Any, ...]]:
    script = Asked(*sites)
    optimization.load(name).edit(script, options or {})
    return script.asked


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("channels_last", {}, ("after_model", "{model}.to(memory_format=torch.channels_last)")),
        ("compile", {}, ("after_model", "{model}.compile()")),
        ("compile", {"dynamic": True}, ("after_model", "{model}.compile(dynamic=True)")),
        ("compile_reduce_overhead", {}, ("after_model", "{model}.compile(mode='reduce-overhead')")),
        ("compile_max_autotune", {"mode": "m"}, ("after_model", "{model}.compile(mode='m')")),
        ("threads", {"threads": 3}, ("after_optimizer", "torch.set_num_threads(3)")),
        ("tf32", {}, ("at_start", 'torch.set_float32_matmul_precision("high")', "import torch")),
        ("flush_denormal", {}, ("at_start", "torch.set_flush_denormal(True)", "import torch")),
        ("cudnn_benchmark", {}, ("at_start", "torch.backends.cudnn.benchmark = True", "import torch")),
        ("gc_freeze", {}, ("at_start", "gc.freeze()", "import gc")),
        ("fused_optimizer", {}, ("set_arguments", "optimizer", {"fused": "True"})),
        ("foreach_optimizer", {}, ("set_arguments", "optimizer", {"foreach": "True"})),
        ("set_to_none", {}, ("set_arguments", "zero_grad", {"set_to_none": "True"})),
        ("ddp_bucket_size", {"bucket_cap_mb": 50}, ("set_arguments", "parallel", {"bucket_cap_mb": "50"})),
        ("ddp_static_graph", {}, ("set_arguments", "parallel", {"static_graph": "True"})),
        (
            "ddp_gradient_as_bucket_view",
            {},
            ("set_arguments", "parallel", {"gradient_as_bucket_view": "True"}),
        ),
        (
            "find_unused_parameters",
            {},
            ("set_arguments", "parallel", {"find_unused_parameters": "False"}),
        ),
        ("huge_pages", {}, ("at_start", 'os.environ["THP_MEM_ALLOC_ENABLE"] = "1"', "import os")),
    ],
)
def test_the_edit_of_a_plain_script(name: str, options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert asked(name, options)[0] == expected


@pytest.mark.parametrize(
    ("name", "kind", "arguments"),
    [
        ("bf16_autocast", "hf_arguments", {"bf16": "True"}),
        ("bf16_autocast", "lightning_trainer", {"precision": '"bf16-mixed"'}),
        ("fp16_autocast", "hf_arguments", {"fp16": "True"}),
        ("fp16_autocast", "lightning_trainer", {"precision": '"16-mixed"'}),
        ("tf32", "hf_arguments", {"tf32": "True"}),
        ("compile", "hf_arguments", {"torch_compile": "True"}),
        (
            "compile_reduce_overhead",
            "hf_arguments",
            {"torch_compile": "True", "torch_compile_mode": "'reduce-overhead'"},
        ),
        ("fused_optimizer", "hf_arguments", {"optim": '"adamw_torch_fused"'}),
        ("activation_checkpointing", "hf_arguments", {"gradient_checkpointing": "True"}),
        ("no_checkpointing", "hf_arguments", {"gradient_checkpointing": "False"}),
        ("find_unused_parameters", "hf_arguments", {"ddp_find_unused_parameters": "False"}),
        ("cudnn_benchmark", "lightning_trainer", {"benchmark": "True"}),
    ],
)
def test_a_trainer_is_told_by_its_own_argument(name: str, kind: str, arguments: dict[str, str]) -> None:
    assert asked(name, {}, kind) == [("set_arguments", kind, arguments)]


def test_bfloat16_wraps_the_forward_part() -> None:
    header = "with torch.autocast(device_type={device!r}, dtype=torch.bfloat16):"
    assert asked("bf16_autocast") == [("around_forward", header)]


def test_loss_scaling_unscales_where_the_script_clips() -> None:
    plain = dict((each[0], each[1]) for each in asked("fp16_autocast"))
    assert plain["replace_backward"] == "scaler.scale({loss}).backward()"
    assert plain["replace_step"] == "scaler.step({optimizer})\nscaler.update()"
    clipping = dict((each[0], each[1]) for each in asked("fp16_autocast", {"clips": True}))
    assert clipping["replace_backward"].endswith("\nscaler.unscale_({optimizer})")


def test_loss_scaling_is_not_put_between_accumulating_and_clipping() -> None:
    with pytest.raises(CannotEdit, match="unscale_"):
        asked("fp16_autocast", {"clips": True, "accumulates": True})


def test_calls_of_checkpoint_are_left_to_the_user() -> None:
    with pytest.raises(CannotEdit, match="by hand"):
        asked("no_checkpointing")


def test_checkpointing_brings_the_code_that_was_tried() -> None:
    kinds = [each[0] for each in asked("activation_checkpointing")]
    assert kinds == ["define", "after_model"]
    assert "def checkpoint_blocks" in asked("activation_checkpointing")[0][1]


def test_the_allocator_is_told_in_three_lines() -> None:
    ((kind, statement, imported),) = asked("allocator")
    assert (kind, imported) == ("at_start", "import ctypes")
    assert [line.partition("  #")[0] for line in statement.split("\n")] == [
        "libc = ctypes.CDLL(None)",
        "libc.mallopt(-4, 0)",
        "libc.mallopt(-1, -1)",
    ]


@pytest.mark.parametrize(
    "name", ["onednn_bf16", "mark_dynamic", "ddp_bf16_hook", "sdpa", "expandable_segments"]
)
def test_the_edit_is_python(name: str) -> None:
    assert asked(name)  # `Asked` parses every statement
