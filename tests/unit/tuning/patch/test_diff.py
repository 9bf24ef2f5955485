"""Unified diffs with a hunk for each change."""

from __future__ import annotations

from laptime.tuning.patch.diff import diff_file, hunks, lines, relabel


def diffed(old: str, *steps: tuple[str, str]) -> tuple[str, list[tuple[str, ...]]]:
    """The diff of several changes, and the names in its hunks."""
    labels: list[tuple[str, ...]] = [()] * len(lines(old))
    now = old
    for name, new in steps:
        labels = relabel(now, new, labels, name)
        now = new
    parts = hunks(old, now, labels)
    return diff_file(old, now, "a.py", parts), [part.names for part in parts]


def test_two_changes_two_lines_apart_are_two_hunks() -> None:
    text, names = diffed("a\nb\nc\nd\n", ("one", "A\nb\nc\nd\n"), ("two", "A\nb\nc\nD\n"))
    assert names == [("one",), ("two",)]
    assert text == (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
        "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -3,2 +3,2 @@\n c\n-d\n+D\n"
    )


def test_neighbours_share_a_hunk() -> None:
    assert diffed("a\nb\nc\n", ("one", "A\nb\nc\n"), ("two", "A\nb\nC\n"))[1] == [("one", "two")]


def test_a_line_that_two_changes_have_edited_names_both() -> None:
    assert diffed("a\n", ("one", "aa\n"), ("two", "aaa\n"))[1] == [("one", "two")]


def test_a_removed_line_is_its_changes() -> None:
    assert diffed("a\nb\nc\n", ("one", "a\nc\n"))[1] == [("one",)]
    assert diffed("a\nb\n", ("one", "a\n"))[1] == [("one",)]


def test_a_last_line_without_newline_is_told() -> None:
    text, _ = diffed("a\nb", ("one", "a\nB"))
    assert text.endswith("-b\n\\ No newline at end of file\n+B\n\\ No newline at end of file\n")


def test_only_lf_ends_a_line() -> None:
    assert lines("a\r\nb\x0cc\u2028d\re\n") == ["a\r\n", "b\x0cc\u2028d\re\n"]


def test_nothing_changed_is_no_diff() -> None:
    assert diffed("a\n")[0] == ""


def test_strange_names_are_quoted_as_git_does() -> None:
    parts = hunks("a\n", "b\n", [("x",)])
    assert '--- "a/q\\"\\011.py"\n' in diff_file("a\n", "b\n", 'q"\t.py', parts)
