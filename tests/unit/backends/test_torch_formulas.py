"""Work of layers that PyTorch's own counter leaves out, against products computed by hand."""

from __future__ import annotations

import warnings
from math import log2
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from laptime.backends.torch.count import count, is_light  # noqa: E402
from laptime.backends.torch.formulas import _FORMULAS, formulas  # noqa: E402

T, B, IN, H = 5, 4, 6, 7


def macs(model: Any, *inputs: Any, grad: bool = False) -> tuple[float, dict[str, Any]]:
    series, receipt = count([], lambda: model(*inputs), batch=1, grad=grad)
    values = {each.metric.tag: each.samples[0] for each in series}
    assert receipt["complete"], receipt["doubtful"]
    return values["macs"], receipt


def recurrent(gates: int, features: int, hidden: int = H, state: int = H) -> int:
    """Products of one step of one item in one layer and direction."""
    return gates * hidden * (features + state)


def test_a_signal_model_is_counted_whole() -> None:
    class Signal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(8, 32, 3, padding=1)
            self.lstm = nn.LSTM(32, 64, batch_first=True)
            self.head = nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.conv(x).transpose(1, 2))[0][:, -1])

    told, receipt = macs(Signal().eval(), torch.ones(1, 8, 200))
    conv, lstm, head = 200 * 32 * 8 * 3, 200 * 4 * 64 * (32 + 64), 64 * 10
    assert told == conv + lstm + head
    assert lstm > 30 * conv
    assert any("rnn" in name for name in receipt["counted"])


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_layers(kind: Any, gates: int, batch_first: bool) -> None:
    x = torch.ones((B, T, IN) if batch_first else (T, B, IN))
    assert macs(kind(IN, H, batch_first=batch_first), x)[0] == T * B * recurrent(gates, IN)
    deep = kind(IN, H, 2, bidirectional=True, batch_first=batch_first)
    layers = 2 * recurrent(gates, IN) + 2 * recurrent(gates, 2 * H)
    assert macs(deep, x)[0] == T * B * layers


def test_projections_of_an_lstm() -> None:
    told, _ = macs(nn.LSTM(IN, H, proj_size=3), torch.ones(T, B, IN))
    assert told == T * B * (recurrent(4, IN, state=3) + 3 * H)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_packed_sequences_are_as_long_as_they_are(kind: Any, gates: int) -> None:
    packed = nn.utils.rnn.pack_sequence([torch.ones(5, IN), torch.ones(3, IN)])
    assert macs(kind(IN, H), packed)[0] == (5 + 3) * recurrent(gates, IN)


def test_cells() -> None:
    assert macs(nn.LSTMCell(IN, H), torch.ones(B, IN))[0] == B * recurrent(4, IN)
    assert macs(nn.GRUCell(IN, H), torch.ones(B, IN))[0] == B * recurrent(3, IN)


def test_training_a_recurrent_layer_has_the_products_of_two_gradients() -> None:
    model = nn.LSTM(IN, H)
    told, _ = macs(
        lambda x: model(x)[0].sum().backward(), torch.ones(T, B, IN, requires_grad=True), grad=True
    )
    assert told == 3 * T * B * recurrent(4, IN)


def test_cudnn_is_told_from_the_shapes_of_its_weights() -> None:
    """As `_cudnn_rnn` gets them: two layers, both directions, a projection to 3, biases."""
    weights: list[tuple[int, ...]] = []
    for features in (IN, IN, 6, 6):
        weights += [(4 * H, features), (4 * H, 3), (4 * H,), (4 * H,), (3, H)]
    found = {str(packet): formula for packet, formula in formulas(set()).items()}
    each = 2 * (recurrent(4, IN, state=3) + 3 * H) + 2 * (recurrent(4, 6, state=3) + 3 * H)
    assert found["aten._cudnn_rnn"]((T, B, IN), weights, 5, out_shape=None) == 2 * T * B * each
    assert found["aten._cudnn_rnn"]((8, IN), weights, 5, out_shape=None) == 2 * 8 * each, "packed"
    assert found["aten._cudnn_rnn_backward"]((T, B, IN), weights, 5) == 4 * T * B * each


def test_bilinear() -> None:
    told, _ = macs(nn.Bilinear(3, 4, 5), torch.ones(B, 3), torch.ones(B, 4))
    assert told == B * 5 * 3 * 4 + B * 5 * 4


def test_fourier_transforms() -> None:
    x, z = torch.ones(B, 64), torch.ones(B, 64, dtype=torch.complex64)
    assert macs(torch.fft.fft, z)[0] == B * 5 * 64 * log2(64) / 2
    assert macs(torch.fft.rfft, x)[0] == B * 2.5 * 64 * log2(64) / 2
    assert macs(torch.fft.irfft, torch.fft.rfft(x))[0] == B * 2.5 * 64 * log2(64) / 2
    assert macs(torch.fft.rfft2, torch.ones(2, 8, 16))[0] == 2 * 2.5 * 128 * log2(128) / 2


def test_attention_in_every_form() -> None:
    attend = nn.functional.scaled_dot_product_attention
    query, key = torch.ones(2, 4, 5, 8), torch.ones(2, 2, 9, 8)
    products = 2 * 4 * 5 * 9 * 8 * 2
    assert macs(lambda q, k: attend(q, k, k, enable_gqa=True), query, key)[0] == products
    every = torch.ones(2, 4, 9, 8)
    assert macs(attend, query, every, every)[0] == products
    mask = torch.zeros(5, 9)
    assert macs(lambda q, k: attend(q, k, k, attn_mask=mask), query, every)[0] == products
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        assert macs(attend, query, every, every)[0] == products


def test_products_in_every_form() -> None:
    a, v = torch.ones(3, 4), torch.ones(4)
    assert macs(lambda: a @ v)[0] == 12
    assert macs(lambda: v @ v)[0] == 4
    assert macs(lambda: torch.einsum("bij,bkj->bik", torch.ones(2, 3, 4), torch.ones(2, 5, 4)))[0] == 2 * 60
    assert macs(lambda: torch.addmv(torch.ones(3), a, v))[0] == 12
    assert macs(lambda: torch.addbmm(torch.ones(3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)))[0] == 120
    transposed = nn.ConvTranspose2d(4, 6, 3, groups=2)
    assert macs(transposed, torch.ones(1, 4, 5, 5))[0] == 5 * 5 * 4 * 3 * 3 * 3


def test_quantized_layers() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(IN, H, 2, bidirectional=True)
            self.head = nn.Linear(2 * H, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.ao.quantization.quantize_dynamic(Tagger())
    x = torch.ones(T, B, IN)
    told, receipt = macs(quantized, x)
    assert told == macs(Tagger(), x)[0]
    assert {"aten.quantized_lstm", "quantized.linear_dynamic"} <= {*receipt["counted"]}


def test_sums_lookups_and_interpolation_are_no_work_by_convention() -> None:
    for call in (
        lambda: nn.functional.grid_sample(
            torch.ones(1, 3, 4, 4), torch.zeros(1, 4, 4, 2), align_corners=False
        ),
        lambda: nn.EmbeddingBag(10, 4)(torch.zeros(3, 5, dtype=torch.int64)),
        lambda: nn.functional.interpolate(torch.ones(1, 3, 4, 4), scale_factor=2, mode="bilinear"),
        lambda: torch.ones(4, 4).cumsum(0).softmax(-1).topk(2),
    ):
        series, receipt = count([], call, batch=1)
        assert series == []
        assert receipt["complete"], receipt["doubtful"]


def test_what_a_formula_does_not_hold_for_is_incomplete() -> None:
    sparse = torch.eye(5).to_sparse()
    series, receipt = count([], lambda: sparse @ torch.ones(5, 4), batch=1)
    assert series == []
    assert receipt["doubtful"] == ["aten.mm (of sparse tensors)"]
    z = torch.ones(3, 3, dtype=torch.complex64)
    series, receipt = count([], lambda: z @ z, batch=1)
    assert series[0].samples == [27]
    assert not receipt["complete"]


def test_no_operator_with_a_formula_is_light() -> None:
    for name in _FORMULAS:
        namespace, _, operator = name.partition(".")
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None:
            assert not is_light(getattr(packet, packet.overloads()[0])), name


@pytest.mark.parametrize(
    "name",
    ["linalg_svd", "linalg_inv_ex", "_cdist_forward", "_grouped_mm", "_foreach_mm", "linalg_matrix_exp"],
)
def test_heavy_operators_without_a_formula_are_doubted(name: str) -> None:
    packet = getattr(torch.ops.aten, name, None)
    if packet is not None:
        assert not is_light(getattr(packet, packet.overloads()[0]))
