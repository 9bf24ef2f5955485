"""Parameters, MACs and FLOPs against figures computed by hand, and the receipt."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends import torch as backend  # noqa: E402
from laptime.backends.torch.count import count  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402

nn = torch.nn


def counted(model: Any, inputs: Any, batch: int = 1) -> tuple[dict[str, float], dict[str, Any]]:
    variant = Variant(target="model", device="auto", dtype="auto")
    series, receipt = backend.open_object(model, inputs, variant).count(batch)
    return {each.metric.tag: each.samples[0] for each in series}, receipt


def test_linear_by_hand() -> None:
    values, receipt = counted(nn.Linear(10, 20), torch.ones(1, 10), batch=4)
    assert values["params/all"] == 10 * 20 + 20
    assert values["macs"] == 4 * 10 * 20
    assert values["flops"] == 2 * values["macs"]
    assert receipt["counted"] == {"aten.addmm": 1600}
    assert receipt["complete"]
    assert receipt["batch"] == 4


def test_convolution_by_hand() -> None:
    values, receipt = counted(
        nn.Sequential(nn.Conv2d(3, 8, 3, groups=1), nn.ReLU()), torch.ones(1, 3, 10, 10)
    )
    assert values["macs"] == 8 * 8 * 8 * 3 * 3 * 3
    assert receipt["uncounted"] == {"aten.relu": 1}
    assert receipt["doubtful"] == []


def test_attention_is_not_lost_in_the_fused_path() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, batch_first=True)
    values, receipt = counted(layer, torch.ones(1, 5, 16))
    projections = 5 * 16 * (3 * 16 + 16) + 5 * 16 * 32 * 2
    attention = 2 * 5 * 5 * 16
    assert values["macs"] == projections + attention
    assert receipt["complete"]
    assert torch.backends.mha.get_fastpath_enabled()


def test_shared_and_frozen_weights_are_counted_once_and_apart() -> None:
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4))
    net[1].weight = net[0].weight
    net[0].weight.requires_grad_(False)
    values, _ = counted(net, torch.ones(2, 4))
    assert values["params/all"] == 16 + 8
    assert values["params/trainable"] == 8
    assert values["buffers/all"] == 4 + 4 + 1


def test_operators_without_formula_that_are_not_known_to_be_light_are_named() -> None:
    layer = nn.Linear(8, 8)
    values, receipt = counted(lambda x: torch.linalg.inv(layer(x)), torch.eye(8), batch=8)
    assert values["macs"] == 8 * 8 * 8
    assert receipt["doubtful"] == ["aten.linalg_inv_ex"]
    assert not receipt["complete"]


def test_operators_of_other_packages_are_not_known_to_be_light() -> None:
    library = torch.library.Library("laptime_test", "DEF")
    library.define("mystery(Tensor x) -> Tensor")
    library.impl("mystery", lambda x: x.clone(), "CompositeExplicitAutograd")
    _, receipt = counted(lambda x: torch.ops.laptime_test.mystery(x @ x), torch.ones(4, 4), batch=4)
    assert receipt["doubtful"] == ["laptime_test.mystery"]


def test_nothing_to_count_is_no_zero() -> None:
    values, receipt = counted(nn.Sequential(nn.ReLU(), nn.BatchNorm1d(3)).eval(), torch.ones(2, 3))
    assert "flops" not in values
    assert "macs" not in values
    assert values["params/all"] == 6
    assert "no matrix" in receipt["reason"]


def test_failing_call_leaves_flops_out_with_the_reason() -> None:
    def call() -> None:
        raise ValueError("not like this\nmore")

    series, receipt = count([nn.Linear(1, 1)], call, batch=1)
    assert [each.metric.tag for each in series] == ["params/all", "params/trainable", "buffers/all"]
    assert "ValueError: not" in receipt["reason"]


def test_plain_function_has_flops_but_no_parameters() -> None:
    values, receipt = counted(lambda x: x @ x, torch.ones(4, 4), batch=4)
    assert values == {"macs": 64.0, "flops": 128.0}
    assert "plain function" in receipt["parameters"]


@pytest.mark.parametrize("name", ["efficientnet_b0", "vit_b_32", "googlenet"])
def test_figures_agree_with_those_torchvision_publishes(name: str) -> None:
    from torchvision.models import get_model_weights

    published = get_model_weights(name).DEFAULT.meta
    model = backend.open(Variant(target=f"torchvision:{name}"))
    values = {each.metric.tag: each.samples[0] for each in model.count(1)[0]}
    assert values["params/all"] == published["num_params"]
    # torchvision's `_ops` are GMACs, called giga floating-point operations there.
    assert values["macs"] / 1e9 == pytest.approx(published["_ops"], abs=1e-3)


def test_efficientnet_b0_has_the_known_figures_at_any_batch() -> None:
    model = backend.open(Variant(target="torchvision:efficientnet_b0"))
    values = {each.metric.tag: each.samples[0] for each in model.count(2)[0]}
    assert values["macs"] / 2 == pytest.approx(0.386e9, rel=0.01)
    assert values["flops"] / 2 == pytest.approx(0.77e9, rel=0.01)


def test_quantized_layers_do_the_work_of_those_in_floats() -> None:
    (values, receipt), (floats, _) = (
        (({each.metric.tag: each.samples[0] for each in series}, receipt))
        for series, receipt in (
            backend.open(Variant(target=f"torchvision:{name}")).count(1)
            for name in ("quantized_shufflenet_v2_x0_5", "shufflenet_v2_x0_5")
        )
    )
    assert values["params/all"] > 1e6
    assert values["macs"] == floats["macs"]
    assert receipt["complete"]


def test_flex_attention_is_counted_though_it_wants_to_be_compiled() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q = torch.randn(1, 2, 32, 16)
    (*_, flops), receipt = count([], lambda: flex.flex_attention(q, q, q), batch=1)
    assert (flops.metric.tag, flops.samples) == ("flops", [2 * 2 * 2 * 32 * 32 * 16])
    assert receipt["counted"] == {"flex_attention": 131072}


def test_a_module_of_torch_export_is_counted_like_the_one_that_it_was_made_of() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval(), torch.randn(2, 8)
    exported = torch.export.export(model, (x,)).module()
    of = {s.metric.tag: s.samples for s in count([exported], lambda: exported(x), batch=2)[0]}
    assert (of["flops"], of["params/all"]) == ([2 * 2 * 8 * 4], [36])
