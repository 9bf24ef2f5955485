"""`%load_ext laptime`, then `%laptime EXPRESSION` or a cell under `%%laptime`: measured in this process.

The result is the run itself, so that a notebook shows it and `run = %laptime model(x)` keeps it."""

import argparse
import ast
import sys
from contextlib import suppress
from types import FunctionType
from typing import Any, NoReturn

from laptime.kit.errors import LaptimeError, UsageError, UserCodeError
from laptime.kit.units import seconds

BUDGET = 5.0  # Seconds; a cell is waited for


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        usage = self.format_usage().strip()
        raise UsageError(f"%laptime: {message}", why=usage, next="%laptime --budget 10 f(x)")


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext laptime`: registers both magics."""

    def magic(line: str, cell: str | None = None) -> Any:
        """Measure an expression, or a whole cell as %%laptime: `run = %laptime model(x)`.

        --budget TIME   of measuring: 2s, 500ms; 5 seconds by default
        --name NAME     keep the run under .laptime/"""
        try:
            return measure(shell, line, cell)
        except LaptimeError as error:
            print(error, file=sys.stderr)
            return None

    shell.register_magic_function(magic, magic_kind="line_cell", magic_name="laptime")


def measure(shell: Any, line: str, cell: str | None = None) -> Any:
    """The run of one magic.
    shell: IPython's: its names are those of the measured code. line: options, then (without a cell) the code.
    Raises UsageError: unknown options, no code, or code that cannot be compiled. UserCodeError: the code
    fails."""
    options, code = parse(line, cell)
    from laptime.verbs import api  # not for %load_ext

    cell_code = FunctionType(_compile(code), shell.user_ns, "cell")
    run = api.bench_call(cell_code, budget=options.budget, name=options.name or "", save=bool(options.name))
    if run.cases and (failure := run.cases[0].failure) is not None:
        raise UserCodeError(failure.what, why=failure.why, next=failure.next)
    return run


def parse(line: str, cell: str | None) -> tuple[argparse.Namespace, str]:
    """Options and code; options end at the first word that is none."""
    parser = _Options(prog="%laptime", add_help=False, allow_abbrev=False)
    parser.add_argument("--budget", type=seconds, default=BUDGET, help="time to measure")
    parser.add_argument("--name", help="keep the run under .laptime/ by this name")
    words, rest = [], line.strip()
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        words.append(option)
        if "=" not in option:
            value, _, rest = rest.lstrip().partition(" ")
            words.append(value)
        rest = rest.lstrip()
    options = parser.parse_args(words)
    code = rest if cell is None else cell
    if not code.strip():
        what = "%laptime has nothing to measure"
        raise UsageError(what, why="no code follows it", next="%laptime model(x)")
    return options, code


def _compile(code: str) -> Any:
    with suppress(SyntaxError):
        return compile(code.strip(), "<laptime>", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        return compile(code, "<laptime>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        what = "this code cannot be compiled"
        raise UsageError(what, why=str(error), next="correct it and run the cell again") from error
