"""Public training scripts, unedited, with made-up data: are their steps found and captured?

    python benchmarks/_strangers.py FOLDER [NAME ...] [--twice] [--profile] [--python PYTHON]
    python benchmarks/_strangers.py FOLDER NAME ... --tune 5m [--python PYTHON]
    python benchmarks/_strangers.py FOLDER NAME ... --again ROWS [--python PYTHON]

FOLDER holds a git clone of each repository as OWNER+NAME (or OWNER+NAME/repo) that has the commit below; nothing
of them is part of this project. Each script is copied into a temporary folder, its data made up beside it, and
run as its README says, sizes apart, on the CPU, until two steps are captured, as the first gate of a session of
`laptime tune` does. PYTHON is an interpreter with torch and what the scripts import.

A line of JSON a script: what its steps were found by, how many were captured, and whether the steps of optimizers
in each are as many as its author counts; with --profile the first lines of its profile. With --tune a session of
this budget, and then its own clock: the script as it is, with what the session hands back and, where it is written
down here, with what an expert changes, in random order, a fresh process each, without laptime.
"""

# ruff: noqa: E501, command lines as they are typed

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import pickle
import random
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from laptime.analysis.paired import of_processes
from laptime.launch.script import resolve
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.trial.messages import CapturePlan, NumericsComparison

SETTLE, TIMED, ROUNDS = 6, 4.0, 4
"""Steps of optimizers before those that are timed (SETTLE in the environment: as many, to leave out the epoch that
fills a cache); seconds of these; processes of each side."""
DRAW = np.random.default_rng(0)
WORDS = [f"w{number}" for number in range(500)]
TEXT = " ".join(random.Random(0).choices(WORDS, k=40_000))
SITE = """
import importlib.abc, importlib.util, os, sys, time

class After(importlib.abc.MetaPathFinder):
    def __init__(self, name, do): self.name, self.do = name, do
    def find_spec(self, name, path, target=None):
        if name != self.name: return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run, do = spec.loader.exec_module, self.do
        spec.loader.exec_module = lambda module: (run(module), do(module))
        return spec

def unchecked(module):  # made-up files are taken for the data set
    module.check_integrity = lambda path, md5=None: os.path.isfile(path)

def offline(module):  # weights that would be downloaded stay as they were drawn
    module.load_pretrained = lambda *args, **kwargs: None

def clocked(module):
    path, settle, steps, seconds = os.environ["CLOCK"].split(":")
    seen, began, main, first, times = 0, 0.0, os.getpid(), None, []
    def stepped(optimizer, *ignored):
        nonlocal seen, began, first
        seen += 1
        now = time.perf_counter()
        first = first or optimizer
        if optimizer is first:
            times.append(now)
        began = began if seen > int(settle) else now
        timed = seen - int(settle)
        if timed and (timed >= int(steps) if int(steps) else now - began > float(seconds)) and os.getpid() == main:
            own = sorted(after - before for before, after in zip(times, times[1:]) if before >= began)
            open(path, "w").write(f"{timed} {(now - began) / timed} {own[len(own) // 2] if own else 0.0}")
            os._exit(0)
    module.register_optimizer_step_post_hook(stepped)

sys.meta_path[:0] = [After("torchvision.datasets.utils", unchecked), After("timm.models._builder", offline)]
if "CLOCK" in os.environ:
    sys.meta_path.insert(0, After("torch.optim.optimizer", clocked))
"""
"""A sitecustomize: made-up data, no downloads, and a clock that knows nothing of laptime: it ends the script after
so many steps of optimizers."""
GYM = "from gymnasium import *"
"""A module `gym`: the package of this name is no longer made."""


def mnist(folder: Path, rows: int = 6000) -> None:
    """Files of MNIST as torchvision looks for them below `folder`/MNIST/raw."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for kind, count in (("train", rows), ("t10k", 1000)):
        images = DRAW.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = DRAW.integers(0, 10, count, dtype=np.uint8)
        for name, head, data in (
            ("images-idx3", struct.pack(">IIII", 2051, count, 28, 28), images),
            ("labels-idx1", struct.pack(">II", 2049, count), labels),
        ):
            (raw / f"{kind}-{name}-ubyte").write_bytes(head + data.tobytes())
            (raw / f"{kind}-{name}-ubyte.gz").write_bytes(gzip.compress(head + data.tobytes(), 1))


def cifar(folder: Path, classes: int = 10) -> None:
    """Pickles of CIFAR-10 or CIFAR-100 below `folder`."""
    home = folder / ("cifar-10-batches-py" if classes == 10 else "cifar-100-python")
    home.mkdir(parents=True, exist_ok=True)
    names = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"] if classes == 10 else ["train", "test"]
    key = "labels" if classes == 10 else "fine_labels"
    for name in names:
        rows = {
            "data": DRAW.integers(0, 256, (2000, 3072), dtype=np.uint8),
            key: DRAW.integers(0, classes, 2000).tolist(),
        }
        (home / name).write_bytes(pickle.dumps(rows))
    meta = {"label_names" if classes == 10 else "fine_label_names": [f"c{n}" for n in range(classes)]}
    (home / ("batches.meta" if classes == 10 else "meta")).write_bytes(pickle.dumps(meta))


def images(folder: Path, names: list[str], size: tuple[int, int], *, mask: bool = False) -> None:
    """Pictures, or masks of zeros and ones."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shape = (size[1], size[0]) if mask else (size[1], size[0], 3)
        Image.fromarray(DRAW.integers(0, 2 if mask else 256, shape, dtype=np.uint8)).save(folder / name)


def unet(folder: Path) -> None:
    names = [f"car{number}" for number in range(48)]
    images(folder / "data" / "imgs", [f"{name}.jpg" for name in names], (240, 160))
    images(folder / "data" / "masks", [f"{name}_mask.gif" for name in names], (240, 160), mask=True)
    shutil.rmtree(folder / "wandb", ignore_errors=True)


def classes(folder: Path) -> None:
    for split in ("train", "val"):
        for label in range(4):
            images(folder / split / f"c{label}", [f"{n}.jpg" for n in range(48)], (256, 256))


def texts(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train.txt", "valid.txt", "test.txt"):
        (folder / name).write_text("\n".join(TEXT[at : at + 200] for at in range(0, len(TEXT), 200)))


def tokens(path: Path, most: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(DRAW.integers(0, most, 400_000, dtype=np.uint16).tobytes())


def shakespeare(folder: Path) -> None:
    for split in ("train", "val"):
        tokens(folder / "data" / "shakespeare_char" / f"{split}.bin", 65)


def stories(folder: Path) -> None:
    for number in range(3):
        tokens(folder / "data" / "tok512" / f"data{number}.bin", 512)


def etth(folder: Path) -> None:
    hours = np.datetime64("2016-07-01") + np.arange(17420) * np.timedelta64(1, "h")
    values = DRAW.standard_normal((len(hours), 7)).cumsum(0)
    rows = [
        f"{str(hour).replace('T', ' ')}:00:00"[:19] + "," + ",".join(f"{value:.3f}" for value in row)
        for hour, row in zip(hours, values, strict=True)
    ]
    path = folder / "dataset" / "ETTh1.csv"
    path.parent.mkdir(parents=True)
    path.write_text("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n" + "\n".join(rows))


def cora(folder: Path) -> None:
    home = folder / "data" / "cora"
    pairs = (home / "cora.cites").read_text().split()
    rows = [
        "\t".join([paper, *map(str, DRAW.integers(0, 2, 1433)), f"class{number % 7}"])
        for number, paper in enumerate(sorted(set(pairs)))
    ]
    (home / "cora.content").write_text("\n".join(rows) + "\n")


def movielens(folder: Path) -> None:
    rows = DRAW.integers(1, 3000, (60_000, 2))
    lines = [f"{user}::{item}::{1 + (user + item) % 5}::0" for user, item in rows]
    (folder / "ratings.dat").write_text("\n".join(lines))


def camvid(folder: Path) -> None:
    """Pictures of streets with labels of twelve classes."""
    from PIL import Image

    names = [f"{number}.png" for number in range(48)]
    for split in ("train", "val", "test"):
        images(folder / "data" / "CamVid" / split, names, (240, 180))
        annotated = folder / "data" / "CamVid" / f"{split}annot"
        annotated.mkdir(parents=True)
        for name in names:
            Image.fromarray(DRAW.integers(0, 12, (180, 240), dtype=np.uint8)).save(annotated / name)


def criteo(folder: Path, rows: int = 20_000) -> None:
    head = ["label", *(f"I{n}" for n in range(1, 14)), *(f"C{n}" for n in range(1, 27))]
    numbers = DRAW.integers(0, 100, (rows, 13))
    names = DRAW.integers(0, 2000, (rows, 26))
    lines = [
        ",".join(map(str, [at % 3 // 2, *numbers[at], *(f"{name:05x}" for name in names[at])]))
        for at in range(rows)
    ]
    (folder / "criteo_sample.txt").write_text("\n".join([",".join(head), *lines]))


def planetoid(folder: Path) -> None:
    """The raw files of Cora as Planetoid has them; takes scipy."""
    from scipy.sparse import csr_matrix

    raw = folder.parent / "data" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)

    def rows(count: int) -> object:
        return csr_matrix((DRAW.random((count, 1433)) < 0.02).astype(np.float32))

    def labels(count: int) -> object:
        return np.eye(7, dtype=np.int32)[np.arange(count) % 7]

    test = np.arange(1708, 2708)
    neighbours = {node: DRAW.integers(0, 2708, 4).tolist() for node in range(2708)}
    parts = {"x": rows(140), "tx": rows(1000), "allx": rows(1708)}
    parts |= {"y": labels(140), "ty": labels(1000), "ally": labels(1708), "graph": neighbours}
    for name, part in parts.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, test)))


def waves(folder: Path) -> None:
    subprocess.run([sys.executable, "generate_sine_wave.py"], cwd=folder, check=True)


def nothing(folder: Path) -> None:
    """The script makes its own data."""


@dataclass(frozen=True)
class Stranger:
    """A public script.

    Attributes:
        repository, commit. folder: in it, where the script is run. words: script and arguments.
        data: makes what it reads, below the folder. steps: of optimizers in one step, as its author counts;
            0: it updates its weights itself.
        also: other folders of the repository that it reads. later: first looked at when the code was done.
    """

    repository: str
    commit: str
    folder: str
    words: str
    data: Callable[[Path], None] = nothing
    steps: int = 1
    also: tuple[str, ...] = ()
    later: bool = False
    variables: dict[str, str] = field(default_factory=dict)


Edit = tuple[str, str, str]
EXAMPLES = ("pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8")
CLEANRL = ("vwxyzjn/cleanrl", "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb")
GANS = ("eriklindernoren/PyTorch-GAN", "36d3c77e5ff20ebe0aeefd322326a134a279b93e")
TUTORIAL = ("yunjey/pytorch-tutorial", "0500d3df5a2a8080ccfccbc00aca0eacc21818db")
FORECAST = (
    "run.py --task_name long_term_forecast --is_training 1 --model_id made --model {} --data ETTh1 "
    "--root_path ./dataset/ --features M --seq_len 96 --pred_len 96 --enc_in 7 --dec_in 7 --c_out 7 "
    "--num_workers 0 --no_use_gpu"
)
TCN = ("locuslab/TCN", "2f8c2b817050206397458dfd1f5a25ce8a32fe65")
MINIMAL = ("seungeunrho/minimalRL", "c8efed8481e3cd40e9739cfde220a55522555b57")
NLP = ("graykode/nlp-tutorial", "d05e31ec81d56d70c1db89b99ab07e948f7ebc11")
LTSF = ("cure-lab/LTSF-Linear", "0c113668a3b88c4c4ee586b8c5ec3e539c4de5a6", "")
LONG = (
    "run_longExp.py --is_training 1 --model_id made --model {} --data ETTh1 --root_path ./dataset/ "
    "--data_path ETTh1.csv --features M --seq_len 96 --pred_len 96 --enc_in 7 --dec_in 7 --c_out 7 --num_workers 0 "
    "--train_epochs 100"
)
STRANGERS = {
    "cifar100": Stranger(
        "weiaicunzai/pytorch-cifar100",
        "11d8418f415b261e4ae3cb1ffe20d06ec95b98e4",
        "",
        "train.py -net mobilenetv2 -b 16",
        lambda folder: cifar(folder / "data", 100),
    ),
    "unet": Stranger(
        "milesial/Pytorch-UNet",
        "21d7850f2af30a9695bbeea75f3136aa538cfc4a",
        "",
        "train.py --batch-size 1 --scale 0.4",
        unet,
        variables={"WANDB_MODE": "disabled"},
    ),
    "llama2.c": Stranger(
        "karpathy/llama2.c",
        "350e04fe35433e6d2941dce5a1f53308f87058eb",
        "",
        "train.py --device=cpu --compile=False --eval_iters=2 --batch_size=8 --vocab_source=custom --vocab_size=512 "
        "--max_seq_len=64 --dim=128 --n_layers=3 --n_heads=4 --n_kv_heads=4 --gradient_accumulation_steps=2",
        stories,
    ),
    "nanogpt": Stranger(
        "karpathy/nanoGPT",
        "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
        "",
        "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 --block_size=64 "
        "--batch_size=12 --n_layer=4 --n_head=4 --n_embd=128",
        shakespeare,
    ),
    "forecast": Stranger(
        "thuml/Time-Series-Library",
        "4e938a1767106324dd753b2a44832bf870a0252e",
        "",
        FORECAST.format("DLinear"),
        etth,
    ),
    "mnist": Stranger(*EXAMPLES, "mnist", "main.py --no-accel", lambda folder: mnist(folder.parent / "data")),
    "dcgan": Stranger(
        *EXAMPLES, "dcgan", "main.py --dataset fake --batchSize 8 --ngf 16 --ndf 16 --workers 1", steps=2
    ),
    "word_lstm": Stranger(
        *EXAMPLES,
        "word_language_model",
        "main.py --emsize 64 --nhid 64",
        lambda f: texts(f / "data" / "wikitext-2"),
        steps=0,
    ),
    "imagenet": Stranger(*EXAMPLES, "imagenet", "main.py --dummy -a resnet18 -b 4 -j 1"),
    "pygcn": Stranger(
        "tkipf/pygcn",
        "1600b5b748b3976413d1e307540ccc62605b4d6d",
        "pygcn",
        "train.py --no-cuda --epochs 20000",
        lambda folder: cora(folder.parent),
        also=("data",),
        variables={"PYTHONPATH": ".."},
    ),
    "ppo": Stranger(*CLEANRL, "cleanrl", "ppo.py --no-cuda --total-timesteps 200000"),
    "adder": Stranger(
        "karpathy/minGPT",
        "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
        "",
        "projects/adder/adder.py",
        variables={"PYTHONPATH": "."},
    ),
    "cifar10": Stranger(
        "kuangliu/pytorch-cifar",
        "49b7aa97b0c12fe0d4054e670403a16b6b834ddd",
        "",
        "main.py",
        lambda folder: cifar(folder / "data"),
        later=True,
    ),
    "vae": Stranger(*EXAMPLES, "vae", "main.py", lambda folder: mnist(folder.parent / "data"), later=True),
    "siamese": Stranger(
        *EXAMPLES,
        "siamese_network",
        "main.py --batch-size 4",
        lambda folder: mnist(folder.parent / "data"),
        later=True,
    ),
    "sequences": Stranger(*EXAMPLES, "time_sequence_prediction", "train.py --steps 15", waves, later=True),
    "rnn": Stranger(
        *EXAMPLES, "mnist_rnn", "main.py", lambda folder: mnist(folder.parent / "data"), later=True
    ),
    "actor_critic": Stranger(*EXAMPLES, "reinforcement_learning", "actor_critic.py", later=True),
    "wgan_gp": Stranger(
        *GANS,
        "implementations/wgan_gp",
        "wgan_gp.py --batch_size 16",
        lambda folder: mnist(folder.parents[1] / "data" / "mnist"),
        later=True,
    ),
    "acgan": Stranger(
        *GANS,
        "implementations/acgan",
        "acgan.py --batch_size 16",
        lambda folder: mnist(folder.parents[1] / "data" / "mnist"),
        steps=2,
        later=True,
    ),
    "char_lstm": Stranger(
        *TUTORIAL,
        "tutorials/02-intermediate/language_model",
        "main.py",
        lambda folder: texts(folder / "data"),
        later=True,
    ),
    "resnet": Stranger(
        *TUTORIAL,
        "tutorials/02-intermediate/deep_residual_network",
        "main.py",
        lambda folder: cifar(folder.parents[1] / "data"),
        later=True,
    ),
    "movielens": Stranger(
        "rixwew/pytorch-fm",
        "f74ad19771eda104e99874d19dc892e988ec53fa",
        "",
        "examples/main.py --dataset_name movielens1M --dataset_path ratings.dat --model_name dfm --device cpu --save_dir .",
        movielens,
        later=True,
        variables={"PYTHONPATH": "."},
    ),
    "dlrm": Stranger(
        "facebookresearch/dlrm",
        "64063a359596c72a29c670b4fcc9450bb342e764",
        "",
        "dlrm_s_pytorch.py --mini-batch-size 64 --num-batches 100000 --data-generation random --arch-mlp-bot 13-64-16 "
        "--arch-mlp-top 64-1 --arch-embedding-size 1000-1000-1000 --arch-sparse-feature-size 16",
        later=True,
    ),
    "dqn": Stranger(
        *CLEANRL,
        "cleanrl",
        "dqn.py --no-cuda --learning-starts 500 --total-timesteps 200000",
        later=True,
        also=("cleanrl_utils",),
        variables={"PYTHONPATH": ".."},
    ),
    "autoencoder": Stranger(
        "Lightning-AI/pytorch-lightning",
        "7f0c3436cd3f6ad3753125672024fc415cbcb414",
        "examples/pytorch/basics",
        "autoencoder.py --trainer.accelerator cpu --trainer.max_epochs 3",
        later=True,
    ),
    "fabric": Stranger(
        "Lightning-AI/pytorch-lightning",
        "7f0c3436cd3f6ad3753125672024fc415cbcb414",
        "examples/fabric/image_classifier",
        "train_fabric.py",
        lambda folder: mnist(folder.parents[2] / "Datasets"),
        later=True,
    ),
    "tcn_words": Stranger(
        *TCN,
        "TCN/word_cnn",
        "word_cnn_test.py --cuda",
        lambda folder: texts(folder / "data" / "penn"),
        also=("TCN",),
        later=True,
    ),
    "tcn_adding": Stranger(*TCN, "TCN/adding_problem", "add_test.py --cuda", also=("TCN",), later=True),
    "pygat": Stranger(
        "Diego999/pyGAT",
        "3664f2dc90cbf971564c0bf186dc794f12446d0c",
        "",
        "train.py --no-cuda",
        cora,
        later=True,
    ),
    "makemore": Stranger(
        "karpathy/makemore", "988aa59e4d8fefa526d06f3b453ad116258398d4", "", "makemore.py", later=True
    ),
    "bigram": Stranger(
        "karpathy/ng-video-lecture", "52201428ed7b46804849dea0b3ccf0de9df1a5c3", "", "bigram.py", later=True
    ),
    "enet": Stranger(
        "davidtvs/PyTorch-ENet",
        "e17d404e2f649a3476eabe39f8a05e5eb77c55fd",
        "",
        "main.py --device cpu --batch-size 4 --height 180 --width 240 --workers 0",
        camvid,
        later=True,
    ),
    "template": Stranger(
        "victoresque/pytorch-template",
        "41dc06f6f8f3f38c6ed49f01ff7d89cd5688adc4",
        "",
        "train.py -c config.json",
        lambda folder: mnist(folder / "data"),
        later=True,
    ),
    "tiny_diffusion": Stranger(
        "tanelp/tiny-diffusion",
        "726b6bbbf2c9e3d23dff9eaea2fda10d0af6a78c",
        "",
        "ddpm.py --num_epochs 2000",
        later=True,
    ),
    "minimal_ppo": Stranger(*MINIMAL, "", "ppo.py", later=True),
    "minimal_sac": Stranger(*MINIMAL, "", "sac.py", steps=4, later=True),
    "lightning_hydra": Stranger(
        "ashleve/lightning-hydra-template",
        "bddbc24b82ab6ccfa6243e815a49dc5bfe8d4144",
        "",
        "src/train.py trainer=cpu trainer.max_epochs=50 test=False data.train_val_test_split=[6000,500,500]",
        lambda folder: mnist(folder / "data"),
        later=True,
    ),
    "criteo": Stranger(
        "shenweichen/DeepCTR-Torch",
        "f6854257b1fc29caab655ce72c6b5528b7432574",
        "examples",
        "run_classification_criteo.py",
        criteo,
        also=("deepctr_torch",),
        later=True,
        variables={"PYTHONPATH": ".."},
    ),
    "bert": Stranger(*NLP, "5-2.BERT", "BERT.py", later=True),
    "transformer": Stranger(*NLP, "5-1.Transformer", "Transformer.py", later=True),
    "dlinear": Stranger(*LTSF, LONG.format("DLinear"), etth, later=True),
    "informer": Stranger(*LTSF, LONG.format("Informer"), etth, later=True),
    "pyg_gat": Stranger(
        "pyg-team/pytorch_geometric",
        "5c6461b2305ad068a6d61165b3c55852a11aaa41",
        "examples",
        "gat.py --epochs 20000",
        planetoid,
        later=True,
    ),
    "pets": Stranger(
        "huggingface/accelerate",
        "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83",
        "examples",
        "cv_example.py --data_dir images --cpu",
        lambda folder: images(folder / "images", [f"kind{n % 7}_{n}.jpg" for n in range(400)], (300, 260)),
        later=True,
    ),
}


def bf16(file: str, text: str, after: str = "") -> Edit:
    """The lines under autocast to bfloat16, and `after` behind them."""
    indent = text[: len(text) - len(text.lstrip())]
    head = f'{indent}with torch.autocast("cpu", torch.bfloat16):'
    return file, text, f"{head}\n{textwrap.indent(text, '    ')}{after and chr(10) + indent + after}"


def channels_last(file: str, line: str) -> Edit:
    """The model laid out by channels behind the line that makes it."""
    indent, model = line[: len(line) - len(line.lstrip())], line.split("=")[0].strip()
    return file, line, f"{line}\n{indent}{model}.to(memory_format=torch.channels_last)"


RESNET = "model = ResNet(ResidualBlock, [2, 2, 2]).to(device)"
LOSS = "        output = model(data)\n        loss = F.nll_loss(output, target)"
BY_HAND: dict[str, tuple[Edit, ...] | str] = {
    "cifar100": (
        bf16("train.py", "        outputs = net(images)\n        loss = loss_function(outputs, labels)\n        loss.backward()"),
        ("train.py", "    writer.add_graph(net, input_tensor)", "    net.to(memory_format=torch.channels_last)"),
        ("train.py", "num_workers=4", "num_workers=1"),
    ),
    "unet": "--amp",
    "llama2.c": (("train.py", 'if device_type == "cpu"', "if False"),),
    "nanogpt": (("train.py", "if device_type == 'cpu'", "if False"), ("train.py", "dtype = 'bfloat16' if", "dtype = 'bfloat16' if True or")),
    "forecast": (("exp/exp_long_term_forecasting.py", "optim.Adam(", "optim.Adam(fused=True, params="),),
    "mnist": (bf16("main.py", f"{LOSS}\n        loss.backward()"),),
    "rnn": (bf16("main.py", f"{LOSS}\n        loss.backward()"),),
    "siamese": (
        bf16("main.py", "        outputs = model(images_1, images_2).squeeze()", "outputs = outputs.float()"),
        channels_last("main.py", "    model = SiameseNetwork().to(device)"),
    ),
    "vae": (bf16("main.py", "        recon_batch, mu, logvar = model(data)", "recon_batch, mu, logvar = recon_batch.float(), mu.float(), logvar.float()"),),
    "dcgan": (
        bf16("main.py", "        output = netD(real_cpu)", "output = output.float()"),
        bf16("main.py", "        fake = netG(noise)"),
        bf16("main.py", "        output = netD(fake.detach())", "output = output.float()"),
        bf16("main.py", "        output = netD(fake)", "output = output.float()"),
    ),
    "imagenet": (
        bf16("main.py", "        output = model(images)\n        loss = criterion(output, target)"),
        ("main.py", "        model.to(device)\n", "        model.to(device, memory_format=torch.channels_last)\n"),
    ),
    "wgan_gp": (
        ("wgan_gp.py", "    shuffle=True,", "    shuffle=True, num_workers=1, persistent_workers=True,"),
        ("wgan_gp.py", "(discriminator.parameters()", "(discriminator.parameters(), fused=True"),
        ("wgan_gp.py", "(generator.parameters()", "(generator.parameters(), fused=True"),
    ),
    "acgan": (
        bf16("acgan.py", "        gen_imgs = generator(z, gen_labels)"),
        bf16("acgan.py", "        validity, pred_label = discriminator(gen_imgs)", "validity, pred_label = validity.float(), pred_label.float()"),
        bf16("acgan.py", "        real_pred, real_aux = discriminator(real_imgs)", "real_pred, real_aux = real_pred.float(), real_aux.float()"),
        bf16("acgan.py", "        fake_pred, fake_aux = discriminator(gen_imgs.detach())", "fake_pred, fake_aux = fake_pred.float(), fake_aux.float()"),
    ),
    "resnet": (
        bf16("main.py", "        outputs = model(images)\n        loss = criterion(outputs, labels)"),
        channels_last("main.py", RESNET),
    ),
    "char_lstm": (bf16("main.py", "        outputs, states = model(inputs, states)\n        loss = criterion(outputs, targets.reshape(-1))"),),
    "makemore": "--num-workers 1",
    "adder": (("mingpt/trainer.py", "C.num_workers = 4", "C.num_workers = 1"),),
    "bigram": (("bigram.py", "lr=learning_rate)", "lr=learning_rate, fused=True)"),),
    "tiny_diffusion": (("ddpm.py", "lr=config.learning_rate,", "lr=config.learning_rate, fused=True,"),),
    "tcn_words": (bf16("word_cnn_test.py", "        output = model(data)\n\n        # Discard the effective history part"),),
    "tcn_adding": (bf16("add_test.py", "        output = model(x)\n        loss = F.mse_loss(output, y)"),),
    "minimal_ppo": (("ppo.py", "import torch\n", "import torch\ntorch.set_num_threads(1)\n"),),
    "minimal_sac": (("sac.py", "import torch\n", "import torch\ntorch.set_num_threads(1)\n"),),
    "transformer": (("Transformer.py", "lr=0.001)", "lr=0.001, fused=True)"),),
    "pygcn": (("train.py", "weight_decay=args.weight_decay)", "weight_decay=args.weight_decay, fused=True)"),),
}  # fmt: skip
"""What an expert changes: edits of files, or arguments of its own."""


def home_of(clones: Path, stranger: Stranger) -> Path:
    """The git directory of its clone."""
    clone = clones / stranger.repository.replace("/", "+")
    return next(
        each for each in (clone / "repo" / ".git", clone / "repo", clone / ".git") if (each / "HEAD").exists()
    )


def copied(clones: Path, stranger: Stranger, into: Path) -> Path:
    """Its folder of the repository, data made up beside it; files of 4 MiB and more may be missing in a clone."""
    git = ["git", f"--git-dir={home_of(clones, stranger)}"]
    commit = stranger.commit
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", commit], capture_output=True, text=True, check=True
    )
    wanted = (stranger.folder, *stranger.also)
    for path in listed.stdout.splitlines():
        if any(not each or path.startswith(f"{each}/") for each in wanted) and not path.endswith(
            (".gif", ".png")
        ):
            shown = subprocess.run([*git, "show", f"{commit}:{path}"], capture_output=True, check=False)
            if shown.returncode == 0:
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                (into / path).write_bytes(shown.stdout)
    place = into / stranger.folder
    stranger.data(place)
    return place


def looked_at(stranger: Stranger, python: str, folder: Path, *, twice: bool) -> dict[str, object]:
    """Steps found, timed and captured, from the script's own folder."""
    words = stranger.words.split()
    program = resolve(words[0], words[1:], is_module=False, python=python)
    runner = TrialRunner(program, folder, timeout=900.0)
    plans = [CapturePlan(write=str(folder / "base.pt"), batches=str(folder / "batches.pt"), steps=2)]
    if twice:
        plans.append(
            CapturePlan(compare=str(folder / "base.pt"), batches=str(folder / "batches.pt"), steps=2)
        )
    found: dict[str, object] = {}
    for plan in plans:
        with runner.start(Recipe(), mode="gate", capture=plan) as running:
            running.wait()
            result = runner.finish(running)
            captured = running.document(NumericsComparison)
        if not captured or not captured.steps:
            return {"steps by": result.source, "captured": 0, "why": f"{result.ended} {result.error}"[-300:]}
        if plan.write:
            per_step = {step.optimizer_steps for step in captured.candidate.steps}
            found |= {
                "steps by": result.source,
                "captured": captured.steps,
                "as its author counts": per_step == {stranger.steps},
            }
        else:
            found["the same twice"] = all(row.equal for row in captured.totals)
    return found


def laptime(verb: str, *words: str) -> dict[str, object]:
    """What a command says in JSON."""
    command = [sys.executable, "-m", "laptime", verb, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(ended.stdout)
    except ValueError:
        return {"error": ended.stderr[-600:], "status": ended.returncode}


def profiled(stranger: Stranger, python: str) -> dict[str, object]:
    """The first lines of its profile."""
    said = laptime("profile", "--no-save", "--json", "--python", python, *stranger.words.split())
    if "error" in said:
        return said
    verdict, found = said["verdict"], said["findings"]
    return {"profile": verdict and verdict["sentence"], "findings": [each["sentence"] for each in found[:3]]}


def step_seconds(python: str, words: list[str], place: Path, steps: int = 0) -> tuple[int, float, float]:
    """Steps of optimizers that were timed in a fresh process (as many as fit if not said), seconds of each, all
    that the script does between them counted, and the median time from one step of its first optimizer to the
    next, which leaves out an evaluation at the end of an epoch."""
    clock = place / "clock.txt"
    clock.unlink(missing_ok=True)
    environ = os.environ | {"CLOCK": f"{clock}:{os.environ.get('SETTLE', SETTLE)}:{steps}:{TIMED}"}
    ended = subprocess.run(
        [python, *words], cwd=place, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    if not clock.exists():
        raise RuntimeError(f"it ended with {ended.returncode} before its steps: {ended.stderr[-200:]}")
    number, seconds, between = clock.read_text().split()
    return int(number), float(seconds), float(between)


def tuned(
    stranger: Stranger, python: str, home: Path, budget: str, said: dict[str, Any]
) -> dict[str, object]:
    """A session of tune (or what an earlier one said), and the script's own clock of each side in turns,
    processes fresh."""
    words, place = stranger.words.split(), home / stranger.folder
    sides = {"as it is": (words, place)}
    if by_hand := BY_HAND.get(home.name):
        copy = home.with_name(f"{home.name}-by-hand") / stranger.folder
        shutil.copytree(home, home.with_name(f"{home.name}-by-hand"))
        switches = by_hand.split() if isinstance(by_hand, str) else []
        for file, old, new in () if isinstance(by_hand, str) else by_hand:
            text = (copy / file).read_text()
            assert old in text, (file, old)
            (copy / file).write_text(text.replace(old, new, 1))
        sides["by hand"] = ([*words, *switches], copy)
    steps = step_seconds(python, *sides["as it is"])[0]
    for side in sides.values():  # an arm that does not run is known before the session
        step_seconds(python, *side, steps)
    said = said or laptime("tune", "--no-earlier", "--budget", budget, "--json", "--python", python, *words)
    if "error" in said:
        return said
    patch, command = said["patch"]["text"], said["patch"]["command"]
    if patch or command:
        copy = home.with_name(f"{home.name}-tuned")
        shutil.copytree(home, copy)
        if patch:
            subprocess.run(
                ["git", "apply", "-"], cwd=copy / stranger.folder, input=patch, text=True, check=True
            )
        sides["tuned"] = (shlex.split(command)[1:] if command else words, copy / stranger.folder)
    order = random.Random(home.name)
    rounds: dict[str, list[float]] = {side: [] for side in sides}
    between: dict[str, list[float]] = {side: [] for side in sides}
    names = (
        "outcome",
        "sentence",
        "speedup",
        "recipe",
        "seconds",
        "why_ended",
        "ladder",
        "diagnosis",
        "patch",
    )
    kept = {
        "own clock": rounds,
        "between steps": between,
        "steps": steps,
        **{name: said[name] for name in names},
    }
    for _ in range(ROUNDS):
        for side in order.sample(sorted(sides), len(sides)):
            try:
                _, mean, middle = step_seconds(python, *sides[side], steps)
            except RuntimeError as error:  # what was handed back does not run
                return {**kept, "why": f"{side}: {error}"}
            rounds[side].append(mean)
            between[side].append(middle)
    return kept


def show_gain(rounds: dict[str, list[float]], side: str) -> str:
    """As it is over this side, round by round, with its interval; "-" without rounds."""
    ratios = [
        one / other for one, other in zip(rounds.get("as it is", ()), rounds.get(side, ()), strict=False)
    ]
    if not ratios:
        return "-"
    low, high = of_processes(ratios).interval or (math.nan, math.nan)
    return f"{geometric_mean(ratios):.2f}x [{low:.2f}, {high:.2f}]"


def show_rows(path: Path) -> None:
    """The rows of the table of sessions, from lines of JSON: gains are as it is over tuned, round by round."""
    for line in map(json.loads, path.read_text().splitlines()):
        if "own clock" not in line or "why" in line:
            print(f"| {line['name']} | - | {line.get('why') or line.get('error')} |")
            continue
        stranger, rounds = STRANGERS[line["name"]], line["own clock"]
        base = rounds["as it is"]
        gains = {side: show_gain(rounds, side) for side in ("tuned", "by hand")}
        gains["tuned"] += " | " + show_gain(line.get("between steps", {}), "tuned")
        kept = ", ".join(f"`{change['name']}`" for change in line["recipe"]) or "nothing"
        first = (
            f"{stranger.repository} `{stranger.words.split()[0]}` ({line['name']}) | {stranger.commit[:8]}"
        )
        claim = line["sentence"].partition(";")[0].partition(":")[0]
        print(
            f"| {first} | {1e3 * median(base):.0f} ms | {kept} | {claim} | {gains['tuned']} | {gains['by hand']} |"
        )


def main() -> None:
    """Look at the named strangers, or at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("names", nargs="*", default=list(STRANGERS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--twice", action="store_true", help="capture the same steps again, and compare")
    parser.add_argument("--profile", action="store_true", help="also what `laptime profile` says first")
    parser.add_argument("--tune", metavar="BUDGET", help="tune them, and time both sides by their own clock")
    parser.add_argument(
        "--again", type=Path, help="time what these lines of JSON handed back, without a session"
    )
    parser.add_argument("--keep", type=Path, help="folder for the copies; a temporary one without it")
    parser.add_argument("--rows", type=Path, help="print the table of these lines instead")
    asked = parser.parse_intermixed_args()
    if asked.rows:
        show_rows(asked.rows)
        return
    said = map(json.loads, asked.again.read_text().splitlines()) if asked.again else ()
    again = {line["name"]: line for line in said if "patch" in line}
    here, clones = Path.cwd(), asked.clones.resolve()
    with tempfile.TemporaryDirectory(prefix="strangers-") as temporary:
        (Path(temporary) / "site").mkdir()
        (Path(temporary) / "site" / "sitecustomize.py").write_text(SITE)
        (Path(temporary) / "site" / "gym.py").write_text(GYM)
        before = dict(os.environ)
        for name in asked.names:
            stranger = STRANGERS[name]
            line: dict[str, object] = {"name": name, "later": stranger.later}
            try:
                home = (asked.keep or Path(temporary)).resolve() / name
                place = copied(clones, stranger, home)
                os.chdir(place)
                paths = [
                    str(Path(temporary) / "site"),
                    *stranger.variables.get("PYTHONPATH", "").split(),
                    before.get("PYTHONPATH", ""),
                ]
                os.environ.update(
                    stranger.variables
                    | {"PYTHONPATH": os.pathsep.join(str(Path(each).resolve()) for each in paths if each)}
                )
                work = Path(temporary) / f"{name}-work"
                work.mkdir()
                if asked.tune or name in again:
                    line |= tuned(stranger, asked.python, home, asked.tune, again.get(name, {}))
                else:
                    line |= looked_at(stranger, asked.python, work, twice=asked.twice)
                if asked.profile:
                    line |= profiled(stranger, asked.python)
            except Exception as error:  # one of them must not end the others
                line["why"] = f"{type(error).__name__}: {error}"[-300:]
            finally:
                os.chdir(here)
                os.environ.clear()
                os.environ.update(before)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
