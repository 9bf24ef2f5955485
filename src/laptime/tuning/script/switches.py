"""A script's own switches: options of its command line that mean a change of the catalogue.

They are read in the source, by their names; nothing of the script runs for it. Read are argparse and what is
called like it, click, fire, dataclasses that become options, TrainingArguments of transformers, nanoGPT's
configurator, Hydra's files, and a configuration file in YAML or JSON that the script names or is given, whose
values are set in the file. Whether a switch does what its name says shows in trials alone."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laptime.tuning import optimization
from laptime.tuning.optimization import IN_FILE, CannotEdit, Change, Optimization
from laptime.tuning.patch.sources import Sources
from laptime.tuning.search.evaluator import TrialFailed

LONGEST_FILE = 100_000  # bytes of a configuration file that is read
MOST_FILES = 60  # files of the user that are read: the script and what it imports, breadth first
OFF = (False, None, 0, "", "False", "false", "no", "none", "off")
TRAINING_ARGUMENTS = {
    "bf16": False, "fp16": False, "tf32": None, "torch_compile": False, "optim": "adamw_torch",
    "dataloader_num_workers": 0, "dataloader_pin_memory": True, "dataloader_persistent_workers": False,
    "dataloader_prefetch_factor": None, "gradient_checkpointing": False,
}  # fmt: skip
"""Options by default that transformers.TrainingArguments gives every script that parses it."""
USED_AS = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "fused")
"""Arguments that tell what a value is for that goes into them."""
PARSED = re.compile(
    r"\b(HfArgumentParser|simple_parsing|tyro|Tap|pyrallis|datargs)\b|\badd_argument\(f['\"]--\{"
)
"""What makes options of a dataclass: libraries, and loops over its fields."""
CONFIGURATIONS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Switch:
    """An option of the script's command line."""

    name: str  # as it is typed: `--amp`, `trainer.precision`; of a file `conf.yaml:trainer.precision`
    form: str = "value"  # how a value is given: behind the name ("value"), behind "=", or not at all ("flag")
    default: Any = None  # what it is where it is not given; `...` for what is computed
    choices: tuple[Any, ...] = ()  # values that it takes
    meaning: str = ""  # the name by which it is known if its own does not say it
    dest: str = ""  # that of its value

    @property
    def key(self) -> str:
        """The name by which it is known: `num_workers` of `--loader.num-workers`."""
        return re.split("[.:]", self.name.lstrip("-"))[-1].replace("-", "_").lower()

    def words(self, value: str) -> list[str]:
        """The words that give it this value."""
        if self.form == "flag":
            return [self.name]
        return [f"{self.name}={value}"] if self.form == "=" else [self.name, value]

    def value_for(self, own: Optimization, options: dict[str, Any]) -> str | None:
        """The value that means a change; None if none does, or it has that one already."""
        if "value" in options:
            is_number = isinstance(self.default, int) and self.default is not True
            value = str(options["value"])
            return value if is_number and self.form != "flag" and value != str(self.default) else None
        if self.form == "flag":
            return "" if self.default in OFF else None
        if named := [each for each in own.switch_values if each in map(str, self.choices)]:
            return named[0] if named[0] != self.default else None
        if self.choices and not set(self.choices) <= {0, 1, *OFF, "True", "true", "yes", "on"}:
            return None
        if self.default is ...:
            return next(iter(own.switch_values), None)
        if isinstance(self.default, str) and self.default not in OFF:
            is_width = re.fullmatch(r"(float|fp|f)?(32|16)(-true)?", self.default)
            styles = {"float": "bfloat", "32": "bf16-", "16": "bf16-"}  # how bfloat16 is written beside it
            start = next((new for old, new in styles.items() if self.default.startswith(old)), "bf16")
            start = start if is_width else f"{self.default}_"
            alike = [each for each in own.switch_values if each.startswith(start)]
            return alike[0] if alike and self.default not in own.switch_values else None
        if self.default is None or self.default not in OFF:
            return None  # what it takes is not known
        return "1" if type(self.default) is int else "true" if self.default == "false" else "True"


def arguments_of(change: Change, switches: Iterable[Switch]) -> list[str]:
    """The words that make the script do this change itself; none if no switch means it."""
    own, known = optimization.load(change.name), list(switches)
    if not own.switch or set(change.options) - {"value"}:
        return []
    for switch in (each for each in known if re.fullmatch(own.switch, each.meaning or each.key)):
        value = switch.value_for(own, change.options)
        if value is not None:
            # Beside a flag for mixed precision another option may have the type.
            types = [each for each in known if switch.form == "flag" and each.key == f"{switch.key}_dtype"]
            more = [each.words(found) for each in types if (found := each.value_for(own, {}))]
            return [*switch.words(value), *(more[0] if more else [])]
    return []


# Reading


def read(main: str, folders: Iterable[Path] = (), given: Iterable[str] = ()) -> list[Switch]:
    """Switches of a script and of the user's modules that it imports, the script's own first. main: path of
    the script, "" if it is not known. folders: where its modules are looked for, beside its own folder.
    given: words of its command line."""
    found: dict[str, Switch] = {}
    uses: dict[str, str] = {}
    configured = [Path(word.rpartition("=")[2]) for word in given if word.endswith(CONFIGURATIONS)]
    for path, tree in _files(main, folders):
        uses |= _uses(tree)
        for switch in [*_of_module(tree), *_of_functions(tree), *_of_classes(tree), *_of_config(path, tree)]:
            found.setdefault(switch.name, switch)
        named = {each for each in map(_literal, _constants(tree)) if str(each).endswith(CONFIGURATIONS)}
        configured += [place for each in sorted(named) for place in (Path(each), path.parent / each)]
    for path in [each for each in configured if each.is_file()][:1]:
        for key, (value, _) in _values(_text(path)).items():
            found.setdefault(f"{path}:{key}", Switch(f"{path}:{key}", "=", value))
    return [replace(each, meaning=uses.get(each.dest or each.key, "")) for each in found.values()]


def words(main: str) -> set[str]:
    """All texts of a script and of its modules: options that it does not know are not among them."""
    return {str(_literal(node)) for _, tree in _files(main, [Path.cwd()]) for node in _constants(tree)}


def _constants(tree: ast.Module) -> Iterator[ast.Constant]:
    """All texts of a file."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return (node for node in nodes if isinstance(node.value, str))


def _uses(tree: ast.Module) -> dict[str, str]:
    """The use of options, by where their values go: `threads` of `DataLoader(num_workers=opt.threads)`."""
    uses = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        for given in call.keywords:
            used = getattr(given.value, "attr", getattr(given.value, "id", ""))
            is_autocast = given.arg == "enabled" and "autocast" in ast.unparse(call.func)
            if used and (is_autocast or given.arg in USED_AS):
                uses[used.lower()] = "amp" if is_autocast else str(given.arg)
    return uses


def _files(main: str, folders: Iterable[Path]) -> Iterator[tuple[Path, ast.Module]]:
    waiting = [Path(main)] if main.endswith(".py") else []
    seen = set(waiting)
    homes = [*(path.parent for path in waiting), *folders]
    for path in waiting:  # grows meanwhile
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        yield path, tree
        for name in _find_imports(tree):
            inner = Path(*name.split("."))
            files = (inner.with_suffix(".py"), inner / "__init__.py")
            places = (home / file for home in (path.parent, *homes) for file in files)
            place = next((place for place in places if place.is_file()), None)
            if place is not None and place not in seen and len(seen) < MOST_FILES:
                seen.add(place)
                waiting.append(place)


def _find_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lead = getattr(node, "module", None) or ""
            yield from (f"{lead}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")
            yield from [lead] if lead else []


def _of_module(tree: ast.Module) -> Iterator[Switch]:
    """Calls that declare an option, add_argument and click.option, with its name in front."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        names = [each for each in map(_literal, call.args) if isinstance(each, str) and each[:1] == "-"]
        if last not in ("add_argument", "add", "add_arg", "option") or not names:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        default, action, choices = (_literal(given.get(key)) for key in ("default", "action", "choices"))
        if isinstance(action, str) and action not in ("store_true", "store"):
            continue  # store_false, count, append ... mean something else
        name, _, negation = next((name for name in names if name[:2] == "--"), names[0]).partition("/")
        is_optional = _literal(given.get("nargs")) == "?" and "const" in given
        is_switch = action is ... or action == "store_true" or _literal(given.get("is_flag")) is True
        if getattr(given.get("type"), "id", "") == "int" and isinstance(default, str) and default.isdigit():
            default = int(default)
        form = "flag" if negation or is_optional or is_switch else "value"
        known = tuple(choices) if isinstance(choices, list | tuple) else ()
        yield Switch(name, form, default, known, dest=str(_literal(given.get("dest")) or "").lower())


def _of_functions(tree: ast.Module) -> Iterator[Switch]:
    """Parameters of a function that fire makes options of."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    fired = {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) in ("fire.Fire", "Fire")}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in fired:
            arguments = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(arguments[::-1], node.args.defaults[::-1], strict=False)]
            for argument, value in [*pairs, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]:
                yield Switch(f"--{argument.arg}", "=", _literal(value))


def _of_classes(tree: ast.Module) -> Iterator[Switch]:
    """Fields of dataclasses that a library makes options of; TrainingArguments has fields of its own."""
    source = ast.unparse(tree)
    if not PARSED.search(source):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    given = {each.arg: each.value for each in getattr(field.value, "keywords", ())}
                    default = _literal(given.get("default", field.value))
                    yield Switch(f"--{field.target.id}", "flag" if default is False else "value", default)
    if "HfArgumentParser" in source and "TrainingArguments" in source:
        for name, default in TRAINING_ARGUMENTS.items():
            yield Switch(f"--{name}", "flag" if default is False else "value", default)


def _of_config(path: Path, tree: ast.Module) -> Iterator[Switch]:
    """Variables of a script that runs nanoGPT's configurator; keys of Hydra's configuration files."""
    source = ast.unparse(tree)
    if re.search(r"exec\(open\(.*configurator", source):
        for variable in tree.body:
            if isinstance(variable, ast.Assign) and isinstance(variable.targets[0], ast.Name):
                yield Switch(f"--{variable.targets[0].id}", "=", _literal(variable.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            given = {keyword.arg: _literal(keyword.value) for keyword in node.keywords}
            folder, name = given.get("config_path"), given.get("config_name")
            if isinstance(folder, str) and isinstance(name, str):
                yield from _keys(path.parent / folder / f"{name.removesuffix('.yaml')}.yaml")


def _keys(path: Path) -> Iterator[Switch]:
    """Values of a YAML file by their dotted keys, those of the groups in its folder that it names as well."""
    values = _values(_text(path))
    for key, (name, _) in values.items():
        if key.startswith("defaults."):
            group = key.split(".")[-1]
            other = path.parent / group / f"{name}.yaml"
            yield from (Switch(f"{group}.{each.name}", "=", each.default) for each in _keys(other))
    yield from (Switch(key, "=", value) for key, (value, _) in values.items() if key[:9] != "defaults.")


def _text(path: Path) -> str:
    """Return the text of a configuration file; "" if there is none."""
    try:
        return path.read_bytes().decode() if path.stat().st_size <= LONGEST_FILE else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _values(text: str) -> dict[str, tuple[Any, Any]]:
    """Values of YAML or JSON by their dotted keys, each with its node; {} if it is neither."""
    import yaml

    found: dict[str, tuple[Any, Any]] = {}

    def walk(lead: str, node: Any) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(f"{lead}.{key.value}" if lead else str(key.value), value)
        elif isinstance(node, yaml.SequenceNode) and lead == "defaults":  # of Hydra
            for number, each in enumerate(node.value):
                walk(f"{lead}.{number}", each)
        elif isinstance(node, yaml.ScalarNode) and lead:
            found[lead] = loader.construct_object(node), node

    try:
        loader = yaml.SafeLoader(text)
        walk("", loader.get_single_node())
    except (ValueError, yaml.YAMLError, RecursionError):
        return {}
    return found


# Values of files


def set_in(sources: Sources, change: Change) -> bool:
    """Set the values of a change's words in their files; whether it has any.
    Raises CannotEdit: a file is not the user's to edit, or has no such value."""
    words = [found for word in change.arguments if (found := IN_FILE.fullmatch(word))]
    for path, key, value in (found.groups() for found in words):

        def edit(path: str = path, key: str = key, value: str = value) -> None:
            file = sources.file(Path(path))
            if file.why:
                raise CannotEdit(file.why)
            file.replace(*_as_set(file.text, key, value))

        sources.try_edit(edit, str(change), change.name)
    return bool(words)


def set_in_files(words: Iterable[str], folder: Path) -> dict[str, str]:
    """Copies of files with values that words set, by the path that each stands in for.
    Raises TrialFailed: a file has no such value any more."""
    copies: dict[str, str] = {}
    for path, key, value in (found.groups() for word in words if (found := IN_FILE.fullmatch(word))):
        whole = str(Path(path).resolve())
        copy = Path(copies.setdefault(whole, str(folder / f"{len(copies)}{Path(path).suffix}")))
        folder.mkdir(parents=True, exist_ok=True)
        before = _text(copy) or _text(Path(path))
        try:
            start, end, text = _as_set(before, key, value)
        except CannotEdit as error:
            raise TrialFailed("refused", f"{path}: {error}") from error
        copy.write_bytes((before[:start] + text + before[end:]).encode())
    return copies


def _as_set(source: str, key: str, value: str) -> tuple[int, int, str]:
    """Return where a value of a file stands, and what is to stand there. Raises CannotEdit: it has none."""
    values = _values(source)
    if key not in values:
        raise CannotEdit(f"there is no value {key}")
    node = values[key][1]
    quote = node.style if node.style in ("'", '"') else ""
    text = value.lower() if value in ("True", "False") else value
    return node.start_mark.index, node.end_mark.index, f"{quote}{text}{quote}"


def _literal(node: ast.expr | None) -> Any:
    """The value of a literal; `...` for what is computed, None if nothing is."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ...
