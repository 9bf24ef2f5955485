"""The small files of /proc and /sys, and what control groups allow the container that this process runs in.

What cannot be read, or is not what it should be, is None. Version 1 of control groups has one tree for each
controller, version 2 one for all; hybrids exist. A process sits in a group, and every group above it limits
it, too: the tightest one counts. A container without its own cgroup namespace sees the host's path of its
group but has only that group mounted, so paths are taken relative to the mount's root (mountinfo field 4), as
the JVM does."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


def children(pid: int | str = "self", root: str = "/") -> list[int]:
    """Processes below this one, each before its own children; by /proc, empty without it."""
    pids: list[int] = []
    with suppress(OSError):
        for task in Path(root, "proc", str(pid), "task").iterdir():
            with suppress(OSError):
                for child in (task / "children").read_text(encoding="ascii").split():
                    pids += [int(child), *children(child, root)]
    return pids


def text(path: Path) -> str | None:
    """A small file's text, stripped."""
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return None


def number(path: Path) -> int | None:
    """A file that holds one integer; None, too, for `max`."""
    with suppress(ValueError):
        return int(text(path) or "")
    return None


def field(path: Path, name: str, between: str = ":") -> str | None:
    """The value of the line `name: value` in a file."""
    for line in (text(path) or "").splitlines():
        left, found, right = line.partition(between)
        if found and left.strip() == name:
            return right.strip()
    return None


def size(path: Path, name: str) -> int | None:
    """Bytes of a field that is written in kB (the kernel means KiB)."""
    words = (field(path, name) or "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


_UNLIMITED = 2**60  # version 1 writes "no memory limit" as a number near 2**63, rounded to pages


class Group(NamedTuple):
    """One level: its folder and which version of the files it has."""

    folder: Path
    version: int


def groups(controller: str, root: str = "/") -> list[Group]:
    """This process's group and all above it that are mounted, its own first; [] without cgroups."""
    base = Path(root)
    paths, mounts = _own_paths(base), _mounts(base)
    for version, name in ((1, controller), (2, "")):
        path = paths.get(name)
        if path is None:
            continue
        for mount_version, controllers, mount_root, point in mounts:
            if mount_version != version or (version == 1 and controller not in controllers):
                continue
            folders = _chain(base / point.lstrip("/"), path, mount_root)
            stat_file = f"{controller}.stat"
            # A hybrid mounts an empty version 2 tree beside version 1; the file tells which one is in charge.
            if version == 1 or any((folder / stat_file).is_file() for folder in folders):
                return [Group(folder, version) for folder in folders]
    return []


def _own_paths(base: Path) -> dict[str, str]:
    """Controller to the path of this process's group; "" is version 2's."""
    paths: dict[str, str] = {}
    for line in (text(base / "proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            paths |= dict.fromkeys(parts[1].split(","), parts[2])
    return paths


def _mounts(base: Path) -> list[tuple[int, list[str], str, str]]:
    """Version, controllers, root inside the tree and mount point of every cgroup mount."""
    mounts = []
    for line in (text(base / "proc/self/mountinfo") or "").splitlines():
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not dash or len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        mounts.append((2 if kind[0] == "cgroup2" else 1, kind[2].split(","), fields[3], fields[4]))
    return mounts


def _chain(point: Path, path: str, mount_root: str) -> list[Path]:
    """Folders from the group `own` up to the mount point, those that exist."""
    inside = path.removeprefix(mount_root.rstrip("/")) if path.startswith(mount_root) else ""
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:
        parts = []
    folders = [point.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in folders if folder.is_dir()]


def quota(group: Group) -> float | None:
    """CPUs that this level's bandwidth limit allows; None without one."""
    names = ("cpu.max",) if group.version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    with suppress(ValueError, ZeroDivisionError):
        share, period = map(int, " ".join(text(group.folder / name) or "" for name in names).split())
        return share / period if share > 0 else None
    return None


def cpu_quota(root: str = "/") -> float | None:
    """CPUs that the tightest bandwidth limit above this process allows; None without one."""
    return min(filter(None, map(quota, groups("cpu", root))), default=None)


def memory_limit(root: str = "/") -> int | None:
    """Bytes of the tightest memory limit above this process; None without one."""
    return min(filter(None, map(_limit, groups("memory", root))), default=None)


def memory_headroom(root: str = "/") -> int | None:
    """Bytes that may still be used under the tightest memory limit; None without one.

    File cache that the kernel would give back first (inactive_file) counts as free."""
    rooms = []
    for group in groups("memory", root):
        used = number(group.folder / ("memory.current" if group.version == 2 else "memory.usage_in_bytes"))
        if (limit := _limit(group)) is not None and used is not None:
            rooms.append(max(0, limit - used + _reclaimable(group)))
    return min(rooms, default=None)


def _limit(group: Group) -> int | None:
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
    limit = number(group.folder / name)
    return limit if limit is not None and limit < _UNLIMITED else None


def _reclaimable(group: Group) -> int:
    name = "inactive_file" if group.version == 2 else "total_inactive_file"
    value = field(group.folder / "memory.stat", name, " ") or ""
    return int(value) if value.isdigit() else 0
