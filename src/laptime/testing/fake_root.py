"""A fake /proc and /sys in a folder, for tests of probes: every probe takes the root as an argument."""

from __future__ import annotations

from pathlib import Path


class FakeRoot:
    """A folder that looks like the root of a machine.

    Attributes:
        root: its path, to be handed to probes.
    """

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)
        self._folder = folder
        self._mounts: list[str] = []
        self._groups: list[str] = []

    def put(self, path: str, text: str) -> None:
        """Write one file, with the folders it needs."""
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def cgroup2(self, own: str, files: dict[str, str], *, mount_root: str = "/") -> None:
        """A version 2 group with these files; `own` is its path as /proc/self/cgroup tells it."""
        inside = own.removeprefix(mount_root.rstrip("/")) if own.startswith(mount_root) else ""
        self._add(f"0::{own}", f"30 20 0:30 {mount_root} /sys/fs/cgroup rw - cgroup2 cgroup rw")
        self._fill("sys/fs/cgroup", inside, files)

    def cgroup1(self, controller: str, own: str, files: dict[str, str], *, mount_root: str = "/") -> None:
        """A version 1 group of one controller."""
        inside = own.removeprefix(mount_root.rstrip("/")) if own.startswith(mount_root) else ""
        point = f"/sys/fs/cgroup/{controller}"
        mount = f"31 20 0:31 {mount_root} {point} rw - cgroup cgroup rw,{controller}"
        self._add(f"{len(self._groups) + 1}:{controller}:{own}", mount)
        self._fill(point.lstrip("/"), inside, files)

    def _add(self, group: str, mount: str) -> None:
        self._groups.append(group)
        self._mounts.append(mount)
        self.put("proc/self/cgroup", "\n".join(self._groups) + "\n")
        self.put("proc/self/mountinfo", "\n".join(self._mounts) + "\n")

    def _fill(self, point: str, inside: str, files: dict[str, str]) -> None:
        (self._folder / point).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            self.put(f"{point}/{inside.strip('/')}/{name}".replace("//", "/"), text)
