"""The user's repository as it was at another revision, in a temporary folder beside the working tree.

`git worktree` makes it: no clone, no network, and the working tree stays as it is. Hooks are not run."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from laptime.kit.errors import Unavailable, UsageError

_TO_SERVERS = ("GIT_ASKPASS", "GIT_CONFIG_", "GIT_HTTP_", "GIT_PROXY_", "GIT_SSH", "GIT_SSL_")
"""How git reaches servers. Its other variables are set by a hook that calls us: for another repository."""


class Revision(NamedTuple):
    """A checked-out revision."""

    commit: str  # its full hash
    folder: Path  # what the current folder is in it
    top: Path  # of the working tree
    place: Path  # the same of the revision

    def python_path(self, current: str) -> str:
        """A PYTHONPATH with which a process imports the revision's code, and not the working tree's.

        Entries inside the working tree are turned to the revision; its own folder and `src` come after them,
        and so before what is installed, which may be the working tree (`pip install -e`)."""
        entries = [Path(entry) for entry in current.split(os.pathsep) if entry]
        moved = [
            self.place / entry.relative_to(self.top)
            if entry.is_absolute() and entry.is_relative_to(self.top)
            else entry
            for entry in entries
        ]
        sources = [folder for folder in (self.place, self.place / "src") if folder.is_dir()]
        return os.pathsep.join(map(str, dict.fromkeys([*moved, *sources])))


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Revision]:
    """A revision of the repository of the current folder, gone again at the end.
    Raises UsageError: this is no repository, or it has no such revision, or no such folder in it."""
    top = Path(git("rev-parse", "--show-toplevel", what="this folder is in no git repository"))
    prefix = git("rev-parse", "--show-prefix", what="this folder is in no git repository")
    commit = git(
        "rev-parse",
        "--verify",
        "--end-of-options",
        f"{revision}^{{commit}}",
        what=f"git knows no revision {revision!r}",
        advice="git log --oneline",
    )
    with tempfile.TemporaryDirectory(prefix="laptime-revision-") as temporary:
        place = Path(temporary).resolve() / commit[:12]
        add = ("worktree", "add", "--quiet", "--detach", str(place), commit)
        git(*add, what=f"{revision} cannot be checked out")
        try:
            folder = place / prefix
            if not folder.is_dir():
                raise UsageError(
                    f"there is no folder {prefix} at {revision}",
                    why="laptime looks for targets in the folder that it was started in",
                    next="start in a folder that both revisions have",
                )
            yield Revision(commit, folder, top, place)
        finally:
            with contextlib.suppress(UsageError):
                git("worktree", "remove", "--force", str(place), what="")


def git(*arguments: str, what: str, advice: str = "", timeout: float | None = None) -> str:
    """The output of git; no shell, no hooks, no questions for a password. what: the error if git fails; the
    last line that git wrote says why.
    Raises Unavailable: git is not installed. UsageError: it failed, or gave no answer in time."""
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(_TO_SERVERS)}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(what, why=f"git gave no answer within {timeout:g} s", next=advice) from error
    except OSError as error:
        raise Unavailable(what, why=f"git cannot be started: {error.strerror}", next="install git") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"git ended with status {done.returncode}"]
        raise UsageError(what, why=lines[-1], next=advice)
    return done.stdout.rstrip("\n")
