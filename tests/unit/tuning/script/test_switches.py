"""A script's own switches are read by their names, and are given as it takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.sources import Sources
from laptime.tuning.script import switches
from laptime.tuning.search.evaluator import TrialFailed

AMP, FUSED, WORKERS = Change("bf16_autocast"), Change("fused_optimizer"), Change("num_workers", {"value": 2})
COMPILE, CHANNELS, PINNED = Change("compile"), Change("channels_last"), Change("pin_memory")


def words(tmp_path: Path, source: str, change: Change, **files: str) -> list[str]:
    """What a script with this source is given for a change; `files`: others beside it, by their stems."""
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(exist_ok=True)
        (path if path.suffix else path.with_suffix(".py")).write_text(text)
    script = tmp_path / "train.py"
    script.write_text(source)
    return switches.arguments_of(change, switches.read(str(script)))


def argument(rest: str) -> str:
    return f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({rest})\n"


@pytest.mark.parametrize(
    ("rest", "change", "given"),
    [
        ("'--amp', action='store_true'", AMP, ["--amp"]),
        ("'-a', '--use-amp', default=False, type=bool", AMP, ["--use-amp", "True"]),
        ("'--use_amp', type=int, default=0", AMP, ["--use_amp", "1"]),
        ("'--amp', action=argparse.BooleanOptionalAction, default=False", AMP, ["--amp"]),
        ("'--dtype', default='float32'", AMP, ["--dtype", "bfloat16"]),
        ("'--precision', default='fp32', choices=['fp32', 'fp16', 'bf16']", AMP, ["--precision", "bf16"]),
        ("'--precision', default='32-true'", AMP, ["--precision", "bf16-mixed"]),
        (
            "'--mixed_precision', default=None, choices=['no', 'fp16', 'bf16']",
            AMP,
            ["--mixed_precision", "bf16"],
        ),
        ("'-j', '--workers', default=0, type=int", WORKERS, ["--workers", "2"]),
        ("'-j', default=0, type=int", WORKERS, ["-j", "2"]),
        ("'--n_cpu', type=int, default=8", WORKERS, ["--n_cpu", "2"]),
        (
            "'--torchcompile', nargs='?', type=str, default=None, const='inductor'",
            COMPILE,
            ["--torchcompile"],
        ),
        ("'--compile', default='no', choices=('yes', 'no')", COMPILE, ["--compile", "True"]),
        ("'--channels-last', action='store_true'", CHANNELS, ["--channels-last"]),
        ("'--pin-mem', action='store_true'", PINNED, ["--pin-mem"]),
    ],
)
def test_an_option_of_argparse_is_given_as_it_is_declared(
    tmp_path: Path, rest: str, change: Change, given: list[str]
) -> None:
    assert words(tmp_path, argument(rest), change) == given


@pytest.mark.parametrize(
    ("rest", "change"),
    [
        ("'--amp', action='store_true', default=True", AMP),  # it is on already
        ("'--no-amp', dest='amp', action='store_false'", AMP),
        ("'--dtype', default='bfloat16'", AMP),
        ("'--dtype', default='int8', choices=['int8', 'int4']", AMP),
        ("'--workers', default=2, type=int", WORKERS),  # the very value
        ("'--test-num-workers', default=0, type=int", WORKERS),  # of another loader
        ("'--amplitude', type=float, default=0.0", AMP),
        ("'workers', type=int", WORKERS),  # no option
        ("'--compile', action='append'", COMPILE),
        ("'--optim', type=str, help='overwrite the optimizer'", FUSED),
    ],
)
def test_what_means_something_else_is_no_switch(tmp_path: Path, rest: str, change: Change) -> None:
    assert words(tmp_path, argument(rest), change) == []


def test_a_flag_beside_which_the_type_is_an_option_comes_with_it(tmp_path: Path) -> None:
    source = (
        argument("'--amp', action='store_true'") + "parser.add_argument('--amp-dtype', default='float16')\n"
    )
    assert words(tmp_path, source, AMP) == ["--amp", "--amp-dtype", "bfloat16"]


def test_an_option_is_known_by_where_its_value_goes(tmp_path: Path) -> None:
    source = argument("'--threads', type=int, default=4") + (
        "opt = parser.parse_args()\nloader = DataLoader(data, num_workers=opt.threads)\n"
    )
    assert words(tmp_path, source, WORKERS) == ["--threads", "2"]

    source = argument("'--loader-threads', dest='threads', type=int, default=0") + (
        "opt = parser.parse_args()\nloader = DataLoader(data, num_workers=opt.threads)\n"
    )
    assert words(tmp_path, source, WORKERS) == ["--loader-threads", "2"]


def test_click_and_fire_are_read(tmp_path: Path) -> None:
    click = (
        "import click\n@click.command()\n@click.option('--amp/--full', default=False)\ndef main(amp): ...\n"
    )
    assert words(tmp_path, click, AMP) == ["--amp"]
    fire = "import fire\ndef train(path, amp=False, *, workers=0): ...\nfire.Fire(train)\n"
    assert words(tmp_path, fire, AMP) == ["--amp=True"]
    assert words(tmp_path, fire, WORKERS) == ["--workers=2"]


def test_dataclasses_and_the_arguments_of_transformers_are_read(tmp_path: Path) -> None:
    source = (
        "from transformers import HfArgumentParser, TrainingArguments\n@dataclass\nclass Own:\n"
        "    channels_last: bool = field(default=False, metadata={'help': ''})\n"
        "own, training = HfArgumentParser((Own, TrainingArguments)).parse_args_into_dataclasses()\n"
    )
    assert words(tmp_path, source, CHANNELS) == ["--channels_last"]
    assert words(tmp_path, source, AMP) == ["--bf16"]
    assert words(tmp_path, source, WORKERS) == ["--dataloader_num_workers", "2"]
    assert words(tmp_path, source, FUSED) == ["--optim", "adamw_torch_fused"]
    assert words(tmp_path, "@dataclass\nclass Own:\n    amp: bool = False\n", AMP) == []


def test_fields_that_a_loop_makes_options_of_are_read(tmp_path: Path) -> None:
    source = (
        "@dataclass\nclass Config:\n    amp: bool = False\n    workers: int = 0\n"
        "for each in fields(Config):\n    parser.add_argument(f'--{each.name}', default=each.default)\n"
    )
    assert words(tmp_path, source, AMP) == ["--amp"]
    assert words(tmp_path, source, WORKERS) == ["--workers", "2"]


@pytest.fixture
def in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Configuration files beside a script, in the current folder, by their names."""
    monkeypatch.chdir(tmp_path)
    texts = {
        "usual.yaml": "data: {workers: 0}  # none\ntrain:\n  use_amp: false\n  dtype: 'float32'\n",
        "other.json": '{\r\n  "trainer": {"use_amp": false, "num_workers": 4}\r\n}\r\n',
    }
    for name, text in texts.items():
        Path(name).write_bytes(text.encode())
    Path("train.py").write_text("import yaml\ncfg = yaml.safe_load(open('usual.yaml'))\n")
    return texts


def test_values_of_a_configuration_file_are_set_in_it(in_files: dict[str, str], tmp_path: Path) -> None:
    usual = switches.read("train.py")
    given = [word for change in (AMP, WORKERS) for word in switches.arguments_of(change, usual)]
    assert given == ["usual.yaml:train.use_amp=True", "usual.yaml:data.workers=2"]
    copies = switches.set_in_files([*given, "--amp", "usual.yaml:train.dtype=bfloat16"], tmp_path / "set")
    ((path, copy),) = copies.items()
    assert path == str(tmp_path / "usual.yaml")
    expected = "data: {workers: 2}  # none\ntrain:\n  use_amp: true\n  dtype: 'bfloat16'\n"
    assert Path(copy).read_text() == expected
    assert Path("usual.yaml").read_text() == in_files["usual.yaml"]


def test_the_file_that_the_script_is_given_is_the_one_that_counts(in_files: dict[str, str]) -> None:
    known = switches.read("train.py", given=["train.py", "-c", "other.json"])
    words = switches.arguments_of(WORKERS, known) + switches.arguments_of(AMP, known)
    assert words == ["other.json:trainer.num_workers=2", "other.json:trainer.use_amp=True"]
    sources = Sources((), "train.py")
    assert switches.set_in(sources, Change("x", {"arguments": words}))
    assert not switches.set_in(sources, Change("x", {"arguments": ["--amp"]}))
    assert '"use_amp": true, "num_workers": 2}\r' in sources.file(Path("other.json")).text
    assert "other.json" in sources.diff()
    assert len(sources.patch_copies(Path("patched"))) == 1
    gone = ["other.json:trainer.lr=1"]
    with pytest.raises(CannotEdit, match=r"trainer\.lr"):
        switches.set_in(sources, Change("x", {"arguments": gone}))
    with pytest.raises(TrialFailed, match=r"other\.json: .* trainer\.lr"):
        switches.set_in_files(gone, Path("set"))


def test_files_that_are_none_have_no_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("{", "\x00", "- 1\n", "a: &a [*a]\n", "amp: false\n" * 100_000):
        Path("conf.yaml").write_text(text)
        Path("train.py").write_text("open('conf.yaml')\n")
        assert switches.arguments_of(AMP, switches.read("train.py")) == []


def test_a_configurator_and_files_of_hydra_are_read(tmp_path: Path) -> None:
    configured = (
        "dtype = 'float16' if torch.cuda.is_available() else 'float32'\ncompile = False\n"
        "exec(open('configurator.py').read())\n"
    )
    assert words(tmp_path, configured, AMP) == ["--dtype=bfloat16"]
    assert words(tmp_path, configured, COMPILE) == ["--compile=True"]
    hydra = "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg): ...\n"
    files = {
        "conf__config_yaml": "defaults:\n  - loader: usual\n  - _self_\ntrainer:\n  amp: false\n",
        "conf/loader__usual_yaml": "num_workers: 0\n",
    }
    assert words(tmp_path, hydra, AMP, **files) == ["trainer.amp=True"]
    assert words(tmp_path, hydra, WORKERS) == ["loader.num_workers=2"]


def test_modules_that_the_script_imports_are_read_and_broken_ones_left_alone(tmp_path: Path) -> None:
    script = "from options import parse\nimport broken, missing, torch\nparse()\n"
    files = {"options": argument("'--amp', action='store_true'"), "broken": "def ("}
    assert words(tmp_path, script, AMP, **files) == ["--amp"]


def test_nothing_of_the_script_runs(tmp_path: Path) -> None:
    source = argument("'--amp', action='store_true'") + f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    assert words(tmp_path, source, AMP) == ["--amp"]
    assert not (tmp_path / "ran").exists()


def test_a_change_says_by_what_it_is_made() -> None:
    assert str(Change("num_workers", {"value": 2, "arguments": ["-j", "2"]})) == "num_workers=2 by -j 2"
    assert str(Change("bf16_autocast", {"arguments": ["--amp"]})) == "bf16_autocast by --amp"
