"""Why a script cannot be tuned, in three lines."""

from __future__ import annotations

from laptime.kit.errors import Hung, LaptimeError, OutOfMemory, Unavailable, UsageError, UserCodeError
from laptime.tuning.search.evaluator import TrialFailed

_MISSING_DATA = ("FileNotFoundError", "Dataset not found", "download=True", "URLError", "NotADirectoryError")


def refusal(name: str, failed: TrialFailed) -> LaptimeError:
    """The error of a script that does not train as it is."""
    why = failed.why
    if failed.kind == "hung":
        return Hung(f"{name} did not finish its first steps", why=why, next="--timeout 30m")
    if failed.kind == "memory":
        return OutOfMemory(f"{name} needs more memory than its limit", why=why, next="--max-memory 8GB")
    if failed.kind == "crashed":
        return _crashed(name, why)
    return UsageError(
        f"no training was found in {name}",
        why=f"{why}; a training step is a backward pass and the step of a torch optimizer",
        next="laptime tune a script that trains for 20 steps or more   or   laptime profile",
    )


def _crashed(name: str, why: str) -> LaptimeError:
    if why.startswith(("ModuleNotFoundError", "ImportError")) and "torch" in why:
        return Unavailable(
            f"{name} could not import torch",
            why=why,
            next="laptime tune --python $(which python) ...   takes the interpreter that has it",
        )
    if why.startswith("ImportError: ") and why.endswith(
        (f"No module named {name}", f"module named {name!r})")
    ):
        return UsageError(
            f"there is no module {name}",
            why=f"{why}: modules are searched from this folder",
            next=f"python -m {name}   has to find it",
        )
    if why.startswith("EOFError"):
        return UserCodeError(
            f"{name} reads from standard input",
            why=f"{why}: a trial has none",
            next="pass the input as arguments of the script",
        )
    if why.startswith("ended with status 2"):  # argparse's way to refuse an option
        return UserCodeError(
            f"{name} did not take its arguments",
            why=why,
            next=f"options of laptime come before the script: laptime tune -o report.html {name}",
        )
    if any(word in why for word in _MISSING_DATA):
        return UserCodeError(
            f"{name} did not find its data",
            why=why,
            next="run it once without laptime from this folder: trials run in the current folder",
        )
    return UserCodeError(f"{name} failed", why=why, next=f"run it without laptime first: python {name}")


def several_ranks(name: str) -> LaptimeError:
    """A script that starts its own ranks: laptime cannot time them together."""
    return UsageError(
        f"{name} starts other processes that train",
        why="only the process of the script is timed; its child processes run without hooks",
        next=f"laptime tune torchrun --nproc-per-node 2 {name}   or tune one process and use its recipe",
    )


def data_parallel(name: str) -> LaptimeError:
    """torch.nn.DataParallel: one process on several devices."""
    return UsageError(
        f"{name} trains on several GPUs with DataParallel",
        why="one process drives all of them, and laptime tunes one device at a time",
        next="CUDA_VISIBLE_DEVICES=0 laptime tune ...   or DistributedDataParallel with torchrun",
    )
