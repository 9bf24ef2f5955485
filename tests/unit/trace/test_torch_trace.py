"""Logs of torch.compile: a recorded one of two functions, one of them compiled four times."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime import rules
from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.trace.reading import reader
from laptime.verbs.trace import analyse

RECORDED = Path(__file__).with_name("recompiles.log")
TRACE = Path(__file__).parents[2] / "data" / "traces" / "h100_bert_small.json.gz"


@pytest.fixture(scope="module")
def recorded() -> Profile:
    return analyse([RECORDED])


def test_every_compilation_is_a_row_with_its_reason(recorded: Profile) -> None:
    rows = [(row.id, row.function, row.place, row.reasons[:1]) for row in recorded.compilations]
    assert rows == [
        ("0/0", "scaled", "rec.py:2", []),
        ("0/1", "scaled", "rec.py:2", ["tensor 'x' size mismatch at index 0. expected 4, actual 5"]),
        ("0/2", "scaled", "rec.py:2", ["tensor 'x' size mismatch at index 0. expected 5, actual 6"]),
        ("0/3", "scaled", "rec.py:2", ["tensor 'x' size mismatch at index 0. expected 6, actual 4"]),
        ("1/0", "once", "rec.py:5", []),
    ]
    assert recorded.compilations[3].reasons[-1] == "factor == 2"
    assert all(row.total_ns > 1_000_000 for row in recorded.compilations)


def test_the_first_line_tells_how_much_was_compiled_again(recorded: Profile) -> None:
    assert recorded.verdict is not None
    assert recorded.verdict.sentence.startswith(
        "Compilation alone: torch.compile compiles 5 times for 552 ms; 3 of"
    )


def test_the_finding_names_function_and_guard(recorded: Profile) -> None:
    (found,) = rules.diagnose(recorded)
    assert found.kind == "trace/recompiles"
    assert "scaled (rec.py:2) 3 times again, 149 ms in all: tensor 'x' size mismatch" in found.sentence
    assert "mark_dynamic" in found.change


def test_phases_of_compiling_are_annotations(recorded: Profile) -> None:
    (row,) = recorded.annotations
    assert (row.name, row.calls) == ("entire_frame_compile (dynamo_timed)", 5)


def test_beside_a_trace_a_log_adds_its_compilations() -> None:
    both = analyse([TRACE, RECORDED])
    assert both.files[0].name == TRACE.name
    assert len(both.files) == 1
    assert len(both.compilations) == 5
    assert any(each.kind == "trace/recompiles" for each in rules.diagnose(both))


def test_lines_of_ranks_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rank.log"
    text = RECORDED.read_text()
    path.write_text(
        "".join(f"[rank0]:{line}" if line.startswith("V") else line for line in text.splitlines(True))
    )
    assert len(reader.read(path).compilations) == 5


@pytest.mark.parametrize(
    "text", ["", "hello\n", 'V1123 02:50:32.6 1 a.py:1] {"compilation_metrics": 3}\n', "\t{\n"]
)
def test_other_logs_are_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.log"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        reader.read(path)
    assert "TORCH_TRACE" in raised.value.next


def test_a_log_that_is_cut_anywhere_gives_what_comes_before(tmp_path: Path) -> None:
    text, path = RECORDED.read_text(), tmp_path / "cut.log"
    for end in range(12_000, len(text), 4_001):
        path.write_text(text[:end])
        assert 1 <= len(reader.read(path).compilations) <= 5
