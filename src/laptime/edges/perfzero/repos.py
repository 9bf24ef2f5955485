"""Git repositories that benchmarks lie in: `url;branch;hash`, cloned under the workspace.

Git is called with its arguments as they are, never through a shell. Nothing that a user changed or committed
in a clone is thrown away: a commit is looked at detached, and a clone with changes is refused.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from laptime.kit.errors import Unavailable, UsageError

TIMEOUT = 1800.0


class Repo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A repository; in what `fetch` gives back, hash is the commit that is checked out."""

    url: str
    branch: str = ""
    hash: str = ""
    dirty: bool = False

    @property
    def name(self) -> str:
        """Its folder: the last part of the URL."""
        return (
            self.url.rstrip("/").replace("\\", "/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
        )


def parse(texts: Sequence[str]) -> list[Repo]:
    """The repositories of all `--git_repos`.

    Raises:
        UsageError: a part cannot be what it should be.
    """
    words = [
        word
        for text in texts
        for part in ([text] if Path(text).exists() else text.split(","))
        if (word := part.strip())
    ]
    repos = [_parse(word) for word in words]
    names = [repo.name for repo in repos]
    for repo in repos:
        if names.count(repo.name) > 1 and repos.count(repo) != names.count(repo.name):
            raise UsageError(
                f"two repositories want the folder {repo.name}",
                why=", ".join(other.url for other in repos if other.name == repo.name),
                next="clone one of them yourself and name it with --python_path=/absolute/folder",
            )
    return list(dict.fromkeys(repos))


def fetch(repo: Repo, folder: Path, *, cached: bool) -> Repo:
    """Have the repository in `folder/NAME` at the wanted commit; what is there then.

    Args:
        cached: take a clone that exists as it is, unless a hash is asked for.

    Raises:
        UsageError: git says no, or the clone there has changes, or comes from elsewhere.
        Unavailable: git is not installed.
    """
    place = folder / repo.name
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _git("clone", "--quiet", "--", _absolute(repo.url), str(place.resolve()), repo=repo)
    elif not (place / ".git").exists():
        raise UsageError(
            f"{place} is no git repository",
            why=f"the clone of {repo.url} belongs there",
            next=f"move it away: mv '{place}' '{place}.old'",
        )
    elif not cached or repo.hash:
        origin = _git("-C", str(place), "config", "--get", "remote.origin.url", repo=repo).strip()
        if origin not in (repo.url, _absolute(repo.url)):
            raise UsageError(
                f"{place} is a clone of something else", why=f"of {origin}", next="--workspace=ANOTHER/FOLDER"
            )
        if changed := _changes(place, repo).splitlines():
            raise UsageError(
                f"{place} has changes that an update could take away",
                why=f"{len(changed)} changed files, {changed[0].strip()} among them",
                next="--use_cached_site_packages   runs it as it is; or commit, or move it away",
            )
        _git("-C", str(place), "fetch", "--quiet", "--tags", "origin", repo=repo)
    else:
        return _state(repo, place)
    if commit := repo.hash or _tip(repo, place):
        _git("-C", str(place), "checkout", "--quiet", "--detach", commit, repo=repo)
    return _state(repo, place)


def _parse(word: str) -> Repo:
    parts = [word] if Path(word).exists() else [part.strip() for part in word.split(";")]
    if len(parts) > 3 or not parts[0] or any(part.startswith("-") for part in parts):
        raise UsageError(
            f"--git_repos={word} cannot be read",
            why="url, or url;branch, or url;branch;hash; none of them begins with a dash",
            next="--git_repos='https://github.com/tensorflow/models.git;master'",
        )
    url, branch, commit = [*parts, "", ""][:3]
    repo = Repo(url=url, branch=branch, hash=commit)
    if repo.name in ("", ".", ".."):
        raise UsageError(
            f"--git_repos={word} gives its clone no name",
            why="the folder is called as the last part of the URL",
            next="name the repository's own folder",
        )
    return repo


def _tip(repo: Repo, place: Path) -> str:
    """The newest commit of the branch at its origin; a tag is itself; without branch, what origin shows."""
    if not repo.branch:
        return "origin/HEAD" if _has_commit(repo, place, "origin/HEAD") else ""
    remote = f"origin/{repo.branch}"
    return remote if _has_commit(repo, place, remote) else repo.branch


def _has_commit(repo: Repo, place: Path, name: str) -> bool:
    try:
        _git("-C", str(place), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", repo=repo)
    except UsageError:
        return False
    return True


def _state(repo: Repo, place: Path) -> Repo:
    commit = _git("-C", str(place), "rev-parse", "HEAD", repo=repo).strip()
    return Repo(url=repo.url, branch=repo.branch, hash=commit, dirty=bool(_changes(place, repo)))


def _changes(place: Path, repo: Repo) -> str:
    # Files that git does not know stay untouched by a checkout: compiled Python is among them.
    return _git("-C", str(place), "status", "--porcelain", "--untracked-files=no", repo=repo).strip()


def _absolute(url: str) -> str:
    """A local path is meant from here, not from inside the clone."""
    return str(Path(url).resolve()) if Path(url).exists() else url


def _git(*words: str, repo: Repo) -> str:
    # No questions for a password, and no hooks or programs that a repository's configuration names.
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environ,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise Unavailable("git is not installed", why="--git_repos needs it", next="install git") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{repo.url}: git gave no answer within {TIMEOUT:g} s") from error
    if done.returncode != 0:
        said = [line for line in done.stderr.strip().splitlines() if line]
        raise UsageError(
            f"git could not fetch {';'.join(filter(None, (repo.url, repo.branch, repo.hash)))}",
            why=said[-1] if said else f"git {words[0]} ended with {done.returncode}",
            next="check the URL, the branch and the hash",
        )
    return done.stdout
