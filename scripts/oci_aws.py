"""Writes docs/oci-aws.md: an article's 16 cores at OCI and AWS; `--check` only tells whether it is fresh."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta

import _pages

from laptime.kit.units import usd
from laptime.pricing import machine_table
from laptime.pricing.bounds import bound
from laptime.pricing.formulas import DAYS, HOURS_PER_MONTH, first_day, per_million, per_month
from laptime.pricing.location import find
from laptime.records.cost import Machine, Work
from laptime.records.quantity import Quantity

SIXTEEN = (
    *("oci:VM.Standard.E3.Flex:16:32", "oci:VM.Standard.E4.Flex:16:32", "oci:VM.Standard.E5.Flex:16:32"),
    *("oci:VM.Standard.E6.Flex:16:32", "oci:VM.Standard3.Flex:16:32", "oci:VM.Standard.A1.Flex:16:32"),
    *("aws:m5.8xlarge", "aws:c5a.8xlarge", "aws:c6a.8xlarge", "aws:c6i.8xlarge", "aws:c7i.8xlarge"),
    *("aws:c8a.4xlarge", "aws:c8g.4xlarge"),
)

SAME = {
    "Zen 3": ("aws:c6a.8xlarge", "oci:VM.Standard.E4.Flex:16:64"),
    "Ice Lake": ("aws:c6i.8xlarge", "oci:VM.Standard3.Flex:16:64"),
    "Zen 5": ("aws:c8a.4xlarge", "oci:VM.Standard.E6.Flex:16:32"),
}
"""The same microarchitecture, cores and memory at both."""

CORE = ("oci:VM.Standard.E5.Flex:1:4", "aws:c7a.medium")
"""One core of Zen 4; the least memory that holds the model where it can be chosen."""
RATE = Quantity.of(8.54, (8.4, 8.7), unit="1/s")
"""Images per second of the core that was measured."""

COLUMNS = (
    *("machine", "OCPU", "vCPU", "cores", "GB", "USD/h", "USD a month", "float32 TFLOP/s"),
    *("USD a TFLOP-hour", "the same in bfloat16", "seen", "holds until"),
)

HEADER = """# 16 cores at OCI and at AWS

**On the same silicon with the same memory, an hour of 16 cores at AWS costs {same} as much as at OCI;
only a measurement on both shows what a model costs.**

An article compared the monthly bill of "16 cores, 32 GB" at both: 588 USD against 1,153 USD. This page
repeats it from list prices whose day and source are in
[machines.csv](../src/laptime/data/machines.csv) and
[flex_shapes.csv](../src/laptime/data/flex_shapes.csv), and explains the two numbers. `make docs`
writes it; `python scripts/oci_aws.py --check` fails if it no longer agrees with the tables.

## What 588 and 1,153 were
"""

BETWEEN = """
So 588 USD is not the bill of 32 GB, which is {small} USD for a month of 730 h: it is, to the dollar,
that of 256 GB, the shape's default of 16 GB an OCPU, for 750 h. 1,153 USD is within 0.1 % that of an
m5.8xlarge, which has 32 **vCPUs** and 128 GB, for the same 750 h. The article's source was not found;
this is a reconstruction from prices that fit. The article mixed up three things:

- **OCPU, vCPU, core.** An OCPU of an x86 shape is a physical core with both of its threads, so 2
  vCPUs; on Arm it is one core (A1) or two (A2, A4), each one vCPU. A vCPU of AWS is a thread, but on
  Graviton and on the AMD families 7a and 8a a whole core. Compare 16 OCPUs with 32 vCPUs of m5, and with 16
  of c8a.
- **Memory.** 256 GB of one against 128 GB of the other, and 32 GB in the text.
- **Hours.** 730 h are a month (8,760 / 12); 750 are not.

## The same 16 cores

These are list prices on demand, each as old as the day beside it; after the last day a price is too old (180
days) and must be looked up again. The cores cannot exceed the TFLOP/s, so the price of a TFLOP-hour is a
lower bound, not a measurement.
"""

FOOTER = """
On the same silicon, with the same memory, an hour at AWS costs {same} as much as at OCI. That is the
price of an hour, **not of a model**: in bfloat16 the AMX cores of c7i have in theory far more FLOPs for a
dollar than any shape of OCI in the table, none of which has AMX. Only a measurement shows which of the two
holds for a model.

## One model on one core

ResNet-50 (torchvision, float32, calls of one image, one thread) on a virtual CPU of an AMD EPYC of family
25, model 17 (Zen 4): 8.5 [8.4, 8.7] images/s, `laptime bench torchvision:resnet50 --threads 1 --budget 60s`,
2026-11-26. The run was `noisy`: other programs used the machine, and the 71 % of the calls that they or the
hypervisor hit are left out. The guest's cloud is not known; the table prices its core as if it
were one of these:

{core}
Both are whole cores of Zen 4; clock, memory and neighbours differ, and only a run on each shows by how much.

## Do it with your model

On each machine:

```sh
laptime bench torchvision:resnet50 --threads 1,2,4,8,16,32 --instances 1,2,4,8 --name e3
```

which ends in a table of cores; then, with the run files of all machines (`.laptime/runs/MONTH/ID.json`)
in one place:

```sh
E3=oci:VM.Standard.E3.Flex:16:32
laptime cost e3.json --machine $E3 --slo latency=100ms@p99          # the cheapest number of cores
laptime cost e3.json m5.json --machine $E3 --machine aws:m5.8xlarge  # USD per 1 M calls of each
laptime cost e3.json --machine $E3 --where                          # what the others cannot beat
```

`--usd-per-hour` takes your own price instead, `laptime cost update` today's lists. [What the words
mean](cost.md).
"""


def page() -> str:
    """The whole page."""
    table = machine_table.load(today=datetime.now(UTC).date(), only_own=True)
    readings = [
        ("E3.Flex, 16 OCPU, 32 GB (as the article says)", find("oci:VM.Standard.E3.Flex:16:32", table)),
        ("E3.Flex, 16 OCPU, 256 GB (16 GB an OCPU)", find("oci:VM.Standard.E3.Flex:16:256", table)),
        ("m5.8xlarge, 32 vCPU, 128 GB", find("aws:m5.8xlarge", table)),
    ]
    lines = [HEADER.replace("{same}", _same(table))]
    lines += ["| reading | USD/h | 730 h | 750 h |", "| --- | ---: | ---: | ---: |"]
    for name, each in readings:
        bills = usd(per_month(each.usd_per_hour)), usd(750 * each.usd_per_hour)
        lines.append(f"| {name} | {each.usd_per_hour:.3f} | {' | '.join(bills)} |")
    assert HOURS_PER_MONTH == 730
    lines.append(BETWEEN.format(small=usd(per_month(readings[0][1].usd_per_hour))))
    lines.append(f"| {' | '.join(COLUMNS)} |")
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    lines += [_row(find(name, table)) for name in SIXTEEN]
    return "\n".join([*lines, FOOTER.replace("{same}", _same(table)).replace("{core}", _core(table))])


def _core(table: machine_table.Table) -> str:
    """What a million images cost on one core of each."""
    lines = [
        "| machine | GB | USD/h | USD per 1 M images | holds until |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for each in (find(name, table) for name in CORE):
        cost = per_million(each.usd_per_hour, RATE, 1.0)
        low, high = cost.interval or (0.0, 0.0)
        text = f"{usd(cost.value)} [{usd(low)}, {usd(high)}]"
        until = (first_day(each.seen) or date.min) + timedelta(days=DAYS[True])
        lines.append(f"| `{each.name}` | {each.memory:g} | {each.usd_per_hour:.4f} | {text} | {until} |")
    return "\n".join([*lines, ""])


def _same(table: machine_table.Table) -> str:
    """How many times as dear, by silicon."""
    ratios = {
        name: find(there, table).usd_per_hour / find(here, table).usd_per_hour
        for name, (there, here) in SAME.items()
    }
    told = [f"{ratio:.1f} times ({name})" for name, ratio in ratios.items()]
    return f"{', '.join(told[:-1])} and {told[-1]}"


def _row(each: Machine) -> str:
    single, half = (_peak(each, dtype) for dtype in ("float32", "bfloat16"))
    ocpus = "" if each.ocpus is None else f"{each.ocpus:g}"
    cells = [
        f"`{each.name}` ({' or '.join(each.cpu)})",
        ocpus,
        f"{each.vcpus:g}",
        f"{each.cores:g}",
        f"{each.memory:g}",
        f"{each.usd_per_hour:.3f}",
        usd(per_month(each.usd_per_hour)),
        f"{single:.2f}",
        usd(each.usd_per_hour / single),
        usd(each.usd_per_hour / half),
        each.seen,
        str((first_day(each.seen) or date.min) + timedelta(days=DAYS[True])),
    ]
    return f"| {' | '.join(cells)} |"


def _peak(each: Machine, dtype: str) -> float:
    """TFLOP/s that nothing with these cores exceeds."""
    best = bound(Work(flops={dtype: 1e12}), each)
    assert best is not None
    return best.rate


if __name__ == "__main__":
    sys.exit(_pages.run("oci-aws", page, of="sections"))
