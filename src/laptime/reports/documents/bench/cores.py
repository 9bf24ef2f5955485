"""How throughput grows with threads and instances: the table that ends a benchmark of several of them."""

from __future__ import annotations

from laptime.analysis.scaling import Scaled, scaling, siblings_pay
from laptime.kit.units import percent, show
from laptime.records.run import Run
from laptime.reports.document import Cell, Column, Facts, Row, Section, Table, measured


def section(run: Run) -> Section:
    """A row a number of threads and instances, fewest first; nothing where there is one number alone."""
    cores = run.environment.physical_cores
    rows = scaling(run.cases, run.constants, None if cores is None else float(cores))
    several = any(row.instances > 1 for row in rows)
    columns = [
        Column(title="threads", kind="count"),
        *([Column(title="instances", kind="count")] if several else []),
        Column(title="throughput", kind="number", note="of all instances together"),
        Column(title="a thread", kind="number", note="throughput over threads of all instances"),
        Column(title="efficiency", kind="share", note="of a thread, against the fewest"),
        Column(title="cores", note="physical ones that are kept busy"),
    ]
    table = (
        [Table(id="core", columns=columns, rows=[_row(row, several=several) for row in rows])] if rows else []
    )
    facts = [Facts(rows=_facts(run, rows))] if rows else []
    return Section(id="cores", title="Cores", blocks=[*table, *facts])


def _row(row: Scaled, *, several: bool) -> Row:
    busy = "-" if row.cores is None else f"{row.cores:g}" + (", shared" if row.siblings else "")
    each = row.rate.value / row.workers
    return Row(
        cells=[
            row.threads,
            *([row.instances] if several else []),
            measured(row.rate),
            Cell(text=show(each, "1/s"), value=each),
            row.efficiency,
            busy,
        ],
        key=row.case,
    )


def _facts(run: Run, rows: list[Scaled]) -> list[tuple[str, str]]:
    """The fastest, the cheapest per core, and what hyperthreads do."""
    fastest = max(rows, key=lambda row: row.rate.value)
    facts = [("fastest", f"{_name(fastest)}: {fastest.rate.text}")]
    per_core = [row for row in rows if row.cores]
    if per_core:
        best = max(per_core, key=lambda row: row.rate.value / (row.cores or 1.0))
        facts.append(
            (
                "per core",
                f"{_name(best)} gives most for a core: {show(best.rate.value / (best.cores or 1.0), '1/s')}",
            )
        )
    facts.append(("siblings", _siblings(run, rows)))
    facts.append(("price", f"laptime cost {run.id} --machine NAME --slo latency=50ms@p99"))
    return facts


def _siblings(run: Run, rows: list[Scaled]) -> str:
    """Whether second threads of cores pay."""
    if run.environment.physical_cores is None:
        return "the hypervisor hides which CPUs share a core: a vCPU is one hyperthread on most clouds"
    apart, shared = ([row for row in rows if row.siblings is value] for value in (False, True))
    if not shared:
        return f"all threads had a core of their own ({run.environment.physical_cores} cores)"
    if not apart:
        return "all had more threads than cores"
    best, above = (max(group, key=lambda row: row.rate.value) for group in (apart, shared))
    gain = percent(abs(above.rate.value / best.rate.value - 1))
    if siblings_pay(rows) is not None:
        return f"second threads of a core pay: {_name(above)} gives {gain} more than {_name(best)}"
    word = "more" if above.rate.value > best.rate.value else "less"
    return (
        f"second threads of a core do not surely pay: {_name(above)} gives {gain} {word} than {_name(best)}"
    )


def _name(row: Scaled) -> str:
    threads = "1 thread" if row.threads == 1 else f"{row.threads} threads"
    return threads if row.instances == 1 else f"{row.instances} instances of {threads}"
