"""What a sample is known by when distributions of samples are compared."""

from __future__ import annotations

import pytest

from laptime.tuning.trial.numerics.captured_inputs import _value

pytestmark = pytest.mark.torch


def test_a_sentence_is_the_same_with_less_padding_and_another_with_other_words() -> None:
    import torch

    words, label = torch.tensor([5, 9, 2]), torch.tensor(1)
    padded = torch.cat([words, torch.zeros(61, dtype=torch.int64)])
    assert _value([padded, label]) == _value([padded[:8], label]) == 16.0
    assert _value([torch.tensor([5, 9, 3]), label]) != 16.0


def test_an_image_is_known_by_its_mean() -> None:
    import torch

    assert _value([torch.full((3, 4, 4), 0.5), torch.tensor(1)]) == 0.5
    assert _value([torch.full((3, 4, 4), 7, dtype=torch.uint8)]) == 7.0
