"""Options, declared once: on the fields of a request, for the command line and for Python.

    slo: Annotated[str, Option("Use only rates that keep this latency.", "50ms@p99")] = ""

The field's name is that of the option (`--slo`) and of the keyword. Its type says how it is typed: a bool is
a switch (`--no-NAME` if it is on by default), a Literal has choices, a list takes one value or several. The
shell's options are made of it in `apps/cli/options`, the keywords of `laptime.bench` by `takes`. Both read
what they get with `Field.read`, so that they refuse the same things in the same words."""

import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.kit.units import seconds

Request = TypeVar("Request")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """How a field is asked for."""

    help: str  # one or two sentences, for `--help` and for `help(laptime.bench)`
    metavar: str = ""  # what stands for the value in --help
    _: KW_ONLY
    flags: str = ""  # as they are typed, if it is not the field's name
    # makes the value of a text; of a list of texts, if the option is repeatable
    read: Callable[[Any], Any] | None = None
    choices: tuple[str, ...] = ()  # values that it may have, if its type does not say them
    # least, most: of a number
    least: float = -math.inf
    most: float = math.inf
    repeatable: bool = False
    bare: str = ""  # the value if the option stands alone, before a word that is none of its choices
    completes: str = ""  # a room of the registry whose names a shell offers


class UnknownKeyword(UsageError, TypeError):
    """A function of the Python API has no such keyword."""


@dataclass(frozen=True)
class Field:
    """A field that has an option."""

    name: str
    option: Option
    kind: type  # bool, int, float, str, Path, list or dict
    of: type  # kind of a list's items
    choices: tuple[str, ...]  # values that it may have; () any
    default: Any  # None if it is not a bool, number or text

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags as they are typed: `-H`, `--header`."""
        name = self.name.replace("_", "-")
        is_off = self.kind is bool and self.default is True
        return tuple(self.option.flags.split()) or ((f"--no-{name}",) if is_off else (f"--{name}",))

    @property
    def shown_default(self) -> str:
        """The default as somebody would type it; "" if the help says it, or there is nothing to say."""
        is_told = "[default:" in self.option.help or self.kind in (bool, list, dict)
        if is_told or self.default is None or self.default == "":
            return ""
        if self.option.read is not seconds:
            return self.default if isinstance(self.default, str) else f"{self.default:g}"
        unit, length = ("s", 1) if self.default <= 120 else ("m", 60)
        return f"{self.default / length:g}{unit}"

    def read(self, given: Any) -> Any:
        """Return the field's value: from a text as somebody types it, or from a value.
        Raises UsageError: it cannot be read, or is impossible."""
        value = self._read(given)
        for each in value if self.kind is list else [value]:
            if self.choices and each not in self.choices and not each == "" == self.default:
                near = closest(str(each), self.choices)
                why, next = f"known: {', '.join(self.choices)}", f"did you mean {near}?" if near else ""
                raise UsageError(f"{each!r} is not one of its choices", why=why, next=next)
            least, most = self.option.least, self.option.most
            is_limited = isinstance(each, (int, float)) and (least, most) != (-math.inf, math.inf)
            if is_limited and not least <= each <= most:  # NaN is neither
                limits = f"from {least:g} to {most:g}" if math.isfinite(most) else f"{least:g} or more"
                raise UsageError(f"{each:g} is impossible", why=f"it must be {limits}")
        return value

    def _read(self, given: Any) -> Any:
        read, is_list = self.option.read, self.kind is list
        if self.option.repeatable and isinstance(given, str):
            given = [given]
        texts = [given] if isinstance(given, str) else given
        are_texts = isinstance(texts, Sequence) and all(isinstance(text, str) for text in texts)
        if read is not None and are_texts and (isinstance(given, str) or self.option.repeatable):
            return read(given)
        if is_list:
            items = [given] if isinstance(given, (str, int, float)) else [*given]
            return [_convert(self.of, item) for item in items]
        return dict(given) if self.kind is dict else _convert(self.kind, given)


def _convert(kind: type, given: Any) -> Any:
    """The value as this kind. Raises UsageError: it is not one."""
    is_bool = isinstance(given, bool)
    if isinstance(given, kind) and not (is_bool and kind is int):
        return given
    if (isinstance(given, str) and kind in (int, float, Path)) or (kind is float and not is_bool):
        with suppress(TypeError, ValueError):
            return kind(given)
    names = {bool: "True or False", int: "a valid integer", float: "a valid number"}
    called = names.get(kind, f"a {kind.__name__}")
    raise UsageError(f"{given!r} is not {called}", why="the option takes nothing else")


@cache
def fields(request: type) -> dict[str, Field]:
    """The fields of a request that have an option, by name, in their order."""
    parameters = inspect.signature(request).parameters
    found = {}
    for name, hint in get_type_hints(request, include_extras=True).items():
        options = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Option)]
        if options:
            default = parameters[name].default
            kind, of, choices = _kind(get_args(hint)[0])
            plain = default if isinstance(default, (bool, int, float, str, Path)) else None
            found[name] = Field(name, options[0], kind, of, options[0].choices or choices, plain)
    return found


def _kind(hint: Any) -> tuple[type, type, tuple[str, ...]]:
    """Kind of a value, of its items, and choices."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return str, str, tuple(filter(None, arguments))
    if origin in (Union, types.UnionType):
        kinds = [_kind(argument) for argument in arguments if argument is not type(None)]
        return next((kind for kind in kinds if not kind[2]), kinds[0])
    if origin in (list, dict):
        item, _, choices = _kind(arguments[-1])
        return origin, item, choices
    return (hint if isinstance(hint, type) and origin is None else object), object, ()


def make_request(request: Callable[..., Request], given: Mapping[str, Any], call: str, **own: Any) -> Request:
    """The request that the keywords of a call make; those that are None are as if they were left out. call:
    what was called, `laptime.bench`. own: fields that are not asked for by a keyword.
    Raises UnknownKeyword: there is no such option. UsageError: a value is impossible."""
    known = fields(request)
    for name in given:
        if name not in known:
            near = closest(name, known)
            what, why = f"{call} has no option {name!r}", f"known: {', '.join(known)}"
            raise UnknownKeyword(what, why=why, next=f"did you mean {near}=?" if near else f"help({call})")
    values: dict[str, Any] = {}
    for name, value in given.items():
        try:
            values |= {} if value is None else {name: known[name].read(value)}
        except UsageError as error:
            next = error.next or f"help({call})"
            raise UsageError(f"{name}: {error.what}", why=error.why, next=next) from error
    return request(**{**own, **values}, origins=dict.fromkeys(values, "argument"))


def takes(request: type, **defaults: Any) -> Callable[[Function], Function]:
    """A function whose `**options` are those of a request: its signature and its help list them. defaults: of
    options whose default is another than the command line's."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        hints, known = get_type_hints(request), fields(request)
        values = {name: field.default for name, field in known.items()} | defaults
        keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        asked = [keyword(name, default=values[name], annotation=hints[name]) for name in known]
        function.__signature__ = signature.replace(parameters=[*own, *asked])  # type: ignore[attr-defined]
        lines = [f"    {name}: {field.option.help}" for name, field in known.items()]
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Options:", *lines])
        return function

    return decorate
