"""Options of PerfZero's command line, checked before anything runs.

Methods are `pkg.mod.Class.method`, `pkg.mod.Class:method` or `pkg.mod.Class.filter:REGEX`. Names of flags and
their defaults are PerfZero's. What needs Google's cloud is ignored if nothing is lost by that, and refused if
the run would not be the one that was asked for."""

import itertools
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from laptime.kit.errors import UsageError


class Method(Struct, frozen=True):
    """One method to run."""

    name: str  # as the user wrote it; a filter's finds are written with dots
    cls: str  # `pkg.mod.Class`
    method: str  # its name in the class


class Filter(Struct, frozen=True):
    """Methods of a class whose names match a regular expression from their first letter on."""

    name: str
    cls: str
    pattern: str


def parse(texts: Sequence[str]) -> list[Method | Filter]:
    """Parse the texts of all `--benchmark_methods`, in their order; repeated ones once.
    Raises UsageError: one names no method of a class, or its expression cannot be read."""
    words = [word for text in texts for part in text.split(",") if (word := part.strip())]
    return list(dict.fromkeys(_parse(word) for word in words))


def expand(wanted: Sequence[Method | Filter], names: Callable[[Filter], list[str]]) -> list[Method]:
    """The methods to run, with every filter replaced by what it finds; each method once. names: looks into
    the class; needs a process that imports it."""
    methods: list[Method] = []
    for each in wanted:
        if isinstance(each, Method):
            methods.append(each)
        else:
            methods += [Method(f"{each.cls}.{name}", each.cls, name) for name in names(each)]
    return list({(method.cls, method.method): method for method in reversed(methods)}.values())[::-1]


_NAME = r"[^\W\d]\w*"
_METHOD = rf"(?:\.|(?<!\.filter):)(?P<method>{_NAME})"
_WORD = re.compile(rf"(?P<cls>{_NAME}(?:\.{_NAME})+)(?:\.filter:(?P<pattern>.*)|{_METHOD})")


def _parse(word: str) -> Method | Filter:
    match = _WORD.fullmatch(word)
    if match is None:
        raise UsageError(
            f"{word!r} names no method of a class",
            why="package.module.Class.method, or Class.filter:REGEX for all that match",
            next="--benchmark_methods=package.module.Class.filter:benchmark_",
        )
    cls, pattern, method = match.group("cls", "pattern", "method")
    if pattern is None:
        return Method(word, cls, method)
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"{word}: the expression behind filter: cannot be read",
            why=f"{error}; a comma separates methods, so an expression cannot have one",
            next=f"{cls}.filter:benchmark_.*",
        ) from error
    return Filter(word, cls, pattern)


IGNORED = dict.fromkeys(("docker_tag", "dockerfile_path", "extra_docker_build_args"), "no image is built")
"""Flags of PerfZero's setup.py without effect here, and why that loses nothing."""
_NO_BIGQUERY = (
    "laptime does not write to BigQuery",
    "--result_upload_methods=your.module.function   gets every summary",
)
_NO_PIP = (
    "laptime installs nothing",
    "install it into an environment of its own and name that: --python ENV/bin/python",
)
REFUSED = {
    "bigquery_project_name": _NO_BIGQUERY,
    "bigquery_dataset_table_name": _NO_BIGQUERY,
    "tensorflow_pip_spec": _NO_PIP,
    "extra_pip_specs": _NO_PIP,
    "site_package_downloads": (
        "laptime does not copy folders",
        "--python_path=/absolute/folder   makes it importable",
    ),
    "gce_nvme_raid": (
        "laptime does not format or mount disks",
        "mount them, then --root_data_dir=/that/folder",
    ),
}
"""Flags without which another thing would be measured, or a result would be lost: why, and what to do."""
FOREVER = 365 * 86400.0


class Flags(Struct, frozen=True, kw_only=True):
    """PerfZero's flags under PerfZero's names; the last ones are ours."""

    benchmark_methods: list[str] = []  # as typed; each may be several with commas between them
    benchmark_num_trials: int = 1
    benchmark_class_type: str | None = None
    perfzero_constructor_args: str = ""
    git_repos: list[str] | None = None
    use_cached_site_packages: bool = False
    python_path: str | None = None
    workspace: str = "workspace"
    execution_id: str | None = None
    root_data_dir: str = "/data"
    data_downloads: str | None = None
    gcs_downloads: str | None = None
    gcloud_key_file_url: str = ""
    output_gcs_url: str | None = None
    scratch_gcs_url: str | None = None
    result_upload_methods: str | None = None
    profiler_enabled_time: str | None = None  # `begin:end,begin:end` in whole seconds after the method began
    tpu_parameters: str | None = None
    ml_framework_build_label: str | None = None
    execution_label: str | None = None
    platform_name: str | None = None
    system_name: str | None = None
    debug: bool = False
    python: str = ""  # interpreter of the processes that run benchmarks; "" is laptime's own
    timeout: float = 3600.0  # seconds that importing, building and running one method may take together
    name: str = ""  # a name to find the run by

    def as_given(self) -> dict[str, Any]:
        """PerfZero's own flags that are not None, as its summary lists them."""
        given = {name: value for name, value in structs.asdict(self).items() if value is not None}
        return {name: value for name, value in given.items() if name not in ("python", "timeout", "name")}


def check_flags(flags: Flags) -> Flags:
    """The flags, when each can be carried out. Raises UsageError: one cannot; says which."""
    if flags.benchmark_num_trials < 1:
        what = f"--benchmark_num_trials is {flags.benchmark_num_trials}"
        raise UsageError(what, why="a method runs at least once", next="--benchmark_num_trials=3")
    constructor_arguments(flags)
    windows(flags)
    tpu(flags)
    if flags.python and shutil.which(flags.python) is None:
        why = "--python must name a Python interpreter"
        raise UsageError(f"there is no interpreter {flags.python}", why=why, next="--python python3")
    key = flags.gcloud_key_file_url
    if key and not Path(key.removeprefix("file://")).is_file():
        raise UsageError(
            f"--gcloud_key_file_url={key} is not a file here",
            why="laptime does not fetch keys or sign in",
            next="fetch it yourself, or leave out the flag: Google's libraries find your own credentials",
        )
    if flags.execution_id is not None and not _is_name(flags.execution_id):
        raise UsageError(
            f"--execution_id={flags.execution_id!r} cannot be the name of a folder",
            why="it names the folder of the results",
            next="--execution_id=2026-11-21-nightly",
        )
    return flags


def refuse(name: str) -> UsageError:
    """The error for a flag that cannot be carried out."""
    why, step = REFUSED[name]
    return UsageError(f"--{name} is not supported", why=why, next=step)


def constructor_arguments(flags: Flags) -> dict[str, Any]:
    """The keyword arguments that every class gets. Raises UsageError: the text is not a JSON object."""
    return _object("perfzero_constructor_args", flags.perfzero_constructor_args, '{"batch_size": 32}')


def tpu(flags: Flags) -> str | None:
    """Name of the TPU that the classes are given. Raises UsageError: PerfZero would have to start it."""
    if not flags.tpu_parameters:
        return None
    given = _object("tpu_parameters", flags.tpu_parameters, '{"name": "...", "using_prestarted_tpu": "true"}')
    if str(given.get("using_prestarted_tpu", "")).lower() == "true" and given.get("name"):
        return str(given["name"])
    raise UsageError(
        "--tpu_parameters asks for a TPU to be started",
        why="laptime does not start or stop machines in a cloud",
        next='start it yourself, then --tpu_parameters=\'{"name": NAME, "using_prestarted_tpu": "true"}\'',
    )


def windows(flags: Flags) -> list[tuple[float, float]]:
    """Seconds after a method's start between which TensorFlow's profiler records.
    Raises UsageError: they are no increasing pairs of numbers."""
    spans: list[tuple[float, float]] = []
    text = flags.profiler_enabled_time or ""
    try:
        for part in filter(None, (part.strip() for part in text.split(","))):
            begin, _, end = part.partition(":")
            spans.append((float(begin), float(end) if end else FOREVER))
    except ValueError:
        spans = [(1.0, 0.0)]
    edges = [edge for window in spans for edge in window]
    if edges and (edges[0] < 0 or any(b <= a for a, b in itertools.pairwise(edges))):
        raise UsageError(
            f"--profiler_enabled_time={text} cannot be read",
            why="it takes begin:end pairs in seconds after the method began, each later than the one before",
            next="--profiler_enabled_time=10:15,30:35",
        )
    return spans


def _object(name: str, text: str, example: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.convert(json.loads(text), dict[str, Any])
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"--{name} is not a JSON object", why=str(error), next=f"--{name}='{example}'"
        ) from error


def _is_name(text: str) -> bool:
    return bool(text.strip(". ")) and not any(c in "/\\\0" or not c.isprintable() for c in text)
