"""A script or a module, run as `python script.py` or `python -m module` would run it.

Other text may stand in for some of the user's files, under their names: `__file__` and imports stay as they
are."""

import builtins
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from laptime.instrument.messages import Ended
from laptime.instrument.steps import Stop


def run(words: list[str], *, is_module: bool) -> Ended:
    """Run `words[0]` with the arguments behind it until it ends, in whatever way.

    sys.argv, sys.path[0], `__main__` and its `__file__` are as without us. An exception is shown by
    sys.excepthook, as Python would show it, without our own frames."""
    name = words[0]
    sys.argv = list(words)
    try:
        if is_module:
            _first_on_path(os.getcwd())  # noqa: PTH109
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            _run_file(name)
    except Stop:
        return Ended(how="stopped", status=0)
    except SystemExit as error:
        # `sys.exit(None)`, `sys.exit(3)` and sys.exit("words") end with 0, 3 and 1.
        code = error.code
        if code is None or isinstance(code, int):
            return Ended(how="exited", status=(code or 0) & 0xFF)
        sys.stderr.write(f"{code}\n")
        return Ended(how="exited", status=1, error=str(code))
    except KeyboardInterrupt:
        return Ended(how="interrupted", status=130)
    except BaseException as error:  # shown and told, as the interpreter itself would
        user_frames = error.__traceback__  # from the script's first on
        ours = (__file__, runpy.__file__, "<frozen runpy>", "<frozen importlib._bootstrap")
        while user_frames is not None and user_frames.tb_frame.f_code.co_filename.startswith(ours):
            user_frames = user_frames.tb_next
        error = error.with_traceback(user_frames)
        sys.excepthook(type(error), error, user_frames)
        return Ended(
            how="raised",
            status=1,
            error="".join(traceback.format_exception_only(error)).strip(),
            traceback="".join(traceback.format_exception(error)),
        )
    return Ended(how="returned", status=0)


def _first_on_path(folder: str) -> None:
    """Put the folder where Python puts it, in place of the one that `-m laptime...` had put there."""
    if sys.flags.safe_path:
        return
    sys.path[0:1] = [folder]


def _run_file(name: str) -> None:
    path = os.path.abspath(name)  # noqa: PTH100, links stay what they are in __file__
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):  # noqa: PTH112
        runpy.run_path(name, run_name="__main__")
        return
    _first_on_path(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
    loader = _Script("__main__", path)
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = loader
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    loader.exec_module(module)


class _Script(SourceFileLoader):
    """Compiles the script anew, as Python does: no file is left in `__pycache__`."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def install(sources: dict[str, str]) -> Callable[[], None]:
    """Python reads these files in place of those; the result undoes it. sources: path of the file to be read,
    by the path that it stands in for."""
    instead = {os.path.realpath(path): other for path, other in sources.items()}
    loader: Any = SourceFileLoader
    get_code, get_data = loader.get_code, loader.get_data

    def read_data(self: Any, path: str) -> bytes:
        data: bytes = get_data(self, instead.get(os.path.realpath(path), path))
        return data

    def load_code(self: Any, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if os.path.realpath(path) in instead:  # never what __pycache__ has of the user's own
            code: CodeType = self.source_to_code(read_data(self, path), path)
            return code
        data: CodeType | None = get_code(self, fullname)
        return data

    if instead:
        loader.get_code, loader.get_data = load_code, read_data

    def undo() -> None:
        if instead:  # both are inherited
            del loader.get_code, loader.get_data

    return undo
