"""The Python API of sessions on models and servers, and of verify; that of scripts is `script/in_process`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from laptime.kit.options import make_request, takes
from laptime.records.event import Listener
from laptime.records.run import Run
from laptime.store import lookup
from laptime.tuning.inference import folder_file
from laptime.tuning.inference import subject as models
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.script import subject as scripts
from laptime.tuning.server import subject as servers
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.session.verify import VerifyRequest
from laptime.verbs.public_run import TunedRun, keep


@takes(ModelRequest, save=False)
def tune_model(target: str, *, on_event: Listener | None = None, **options: Any) -> TunedRun:
    """Make a model run faster, as `laptime tune model` does: `tune_model("model.onnx", export="fast")`.
    Raises UsageError: there is no such model, or the request is impossible. UserCodeError: it fails as it is.
    """
    request = make_request(ModelRequest, options, "laptime.tune_model", target=target, save=False).complete()
    return TunedRun.of(keep(lambda emit: models.tune_model(request, emit), on_event, save=request.save))


@takes(ServerRequest, save=False)
def tune_server(command: str, *, on_event: Listener | None = None, **options: Any) -> TunedRun:
    """Choose the flags of a server, as `laptime tune server` does. command: with {port}, choices in braces.
    Raises UsageError: the request is impossible. UserCodeError: the server fails as it is."""
    request = make_request(ServerRequest, options, "laptime.tune_server", command=command, save=False)
    done = request.complete()
    return TunedRun.of(keep(lambda emit: servers.tune_server(done, emit), on_event, save=done.save))


@takes(VerifyRequest, save=False)
def verify(recipe: str | Path, *, on_event: Listener | None = None, **options: Any) -> TunedRun:
    """Check that an earlier result of `tune` still holds, as `laptime verify` does; `run.tuning.gate` and
    `run.tuning.speedup` are the answer. recipe: the file that `tune` wrote, or what names a stored session.
    Raises UsageError: there is neither."""
    request = make_request(VerifyRequest, options, "laptime.verify", recipe=Path(recipe), save=False)
    check, request, _ = verification(request)
    return TunedRun.of(keep(lambda emit: check(request, emit), on_event, save=request.save))


def verification(request: VerifyRequest) -> tuple[Callable[[Any, Listener], Run], VerifyRequest, str]:
    """Return the check of this file or run (a script's, a model's, a server's), and what its rates count.
    Raises UsageError: there is no such file, and no run matches the word."""
    word = str(request.recipe)
    if not request.recipe.exists() and not word.endswith(".json") and lookup.path_of(word) is not None:
        run = lookup.load(word)
        if run.tuning is None or run.tuning.server is not None or not run.tuning.recipe_path:
            unit = run.tuning.server.unit if run.tuning and run.tuning.server else ""
            return (lambda asked, emit: servers.verify_server(run, asked, emit)), request, unit
        request = replace(request, recipe=Path(run.tuning.recipe_path))
    is_model = folder_file.is_one(request.recipe)
    return (models.verify_model, request, "items") if is_model else (scripts.verify, request, "")
