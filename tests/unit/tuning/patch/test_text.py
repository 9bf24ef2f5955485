"""Text that is edited in place."""

from __future__ import annotations

from laptime.tuning.patch.text import Text


def test_a_mark_stays_with_what_it_was_put_on() -> None:
    text = Text("one two three")
    mark = text.mark(4)
    text.insert(4, "and ")
    text.insert(0, "> ")
    text.replace(0, 5, "")
    assert text.text[mark.offset :] == "two three"


def test_a_mark_inside_a_replacement_follows_what_both_texts_share() -> None:
    text = Text("loss.backward()")
    mark = text.mark(text.text.index("("))
    text.replace(0, len(text.text), "scaler.scale(loss).backward()")
    assert text.text[: mark.offset] == "scaler.scale(loss).backward"


def test_a_mark_on_what_is_gone_is_gone() -> None:
    text = Text("a = 1\n")
    mark = text.mark(4)
    text.replace(4, 5, "b")
    assert mark.offset == -1


def test_lines_added_at_one_place_keep_the_order_in_which_they_were_added() -> None:
    text = Text("a\nb\n")
    for line in ("1", "2", "3"):
        text.insert_lines(2, line)
    assert text.text == "a\n1\n2\n3\nb\n"


def test_a_line_above_an_added_one_belongs_to_it() -> None:
    text = Text("a\nb\n")
    text.insert_above(text.insert_lines(2, "1"), "# 1")
    text.insert_above(text.insert_lines(2, "2"), "# 2")
    assert text.text == "a\n# 1\n1\n# 2\n2\nb\n"


def test_a_last_line_without_newline_stays_without() -> None:
    text = Text("a\r\nb")
    text.insert_lines(4, "c")
    assert text.text == "a\r\nb\r\nc"


def test_moved_text_takes_its_marks_along() -> None:
    text = Text("abc def")
    mark = text.mark(5)
    text.move(4, 7, 0)
    assert text.text == "defabc "
    assert text.text[mark.offset] == "e"


def test_what_was_restored_is_as_before() -> None:
    text = Text("a\n")
    mark = text.mark(0)
    kept = text.snapshot()
    text.insert_lines(0, "x")
    text.restore(kept)
    assert text.text == "a\n"
    assert mark.offset == 0
    assert text.added == []
