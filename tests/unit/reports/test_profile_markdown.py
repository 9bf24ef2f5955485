"""A profile in a pull request: tables that are tables, names that stay text."""

import re

from msgspec import structs

from fixtures import profiles
from laptime.records.check import Finding
from laptime.records.tables import OperatorRow
from laptime.reports.formats import markdown

EVIL = "a|b</script><script>alert(1)</script> @someone `x` [y](http://z) \x1b[2J"


def test_every_table_has_as_many_cells_in_each_row():
    page = markdown.render(profiles.example())
    for block in re.findall(r"(?:^\|.*\|$\n?)+", page, flags=re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_names_cannot_become_markup():
    run = profiles.example()
    row = OperatorRow(id=EVIL, name=EVIL, calls=1, host_total_ns=5, host_self_ns=5, device_self_ns=5)
    finding = Finding(kind="x", sentence=EVIL, change=EVIL, next=EVIL, stack=[EVIL])
    evil = structs.replace(
        run, name=EVIL, findings=[finding], profile=structs.replace(run.profile, operators=[row])
    )
    page = markdown.render(evil)
    outside = re.sub(r"``.*?``|(?<!\\)`[^`]*`", "", page)
    assert "<script>" not in outside
    assert not re.search(r"(?<!\\)@someone", outside)
    assert "\x1b" not in page
    assert "](http" not in outside.replace("\\](", "")


def test_the_machines_folders_are_left_out():
    run = structs.replace(profiles.example(), name="/home/me/secret/train.py")
    assert "secret" not in markdown.render(run)
