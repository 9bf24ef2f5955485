"""The files of a script, edited one change after another.

    sources = Sources(loop_profile.sites, "train.py")
    touched = sources.apply(Change("num_workers", {"value": 2}), "num_workers=2, 1.42x [1.38, 1.45]")
    sources.diff()

Edits are made in the text, at places that libcst has found; nothing else of a file is written anew. The sites
of the diagnosing trial are turned into marks before the first edit, and marks move with the text. So a site
stays valid however many lines were put above it."""

from collections.abc import Callable
from pathlib import Path

from laptime.tuning import optimization
from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch import diff, mends
from laptime.tuning.patch.diff import Hunk
from laptime.tuning.patch.editor import Editor
from laptime.tuning.patch.files import BOM, File
from laptime.tuning.patch.mends import Mend
from laptime.tuning.patch.sites import LocatedSites


def hunks_of(file: File) -> list[Hunk]:
    """Its part of the diff; a hunk knows its changes' names."""
    return diff.hunks(file.original, file.text, file.labels)


class Sources(LocatedSites):
    """The user's files that sites lie in, and the script's main file; see `LocatedSites`. applied: changes
    that are in the files, in order."""

    def __init__(self, sites: tuple[Site, ...], main: str, device: str = "") -> None:
        super().__init__(sites, main, device)
        self.applied: list[Change] = []

    def apply(self, change: Change, comment: str = "") -> list[str]:
        """Edit the files as a change's `edit` says, or leave all as they are. Returns paths of the files that
        were changed; none if the source is so already.
        Raises CannotEdit: the source does not allow it; UsageError: there is no such optimization."""
        if change in self.applied:
            return []

        def edit() -> None:
            editor = Editor(self, comment)
            optimization.load(change.name).edit(editor, change.options)
            editor.finish()

        touched = self.try_edit(edit, str(change), change.name)
        self.applied.append(change)
        return touched

    def mend(self, wanted: Mend, name: str) -> None:
        """Mend a line that the optimization of this name makes crash. Raises CannotEdit, as `apply`."""
        self.try_edit(lambda: mends.mend(self.file(Path(wanted.file)), wanted), f"the mend for {name}", name)

    def try_edit(self, edit: Callable[[], None], label: str, name: str) -> list[str]:
        """Edit the files, or leave all as they are; paths of those that were changed.
        Raises CannotEdit: as `edit` does, or a file would be no Python."""
        snapshots = {path: file.snapshot() for path, file in self.files.items()}
        try:
            edit()
            before = {path: snapshot[0] for path, snapshot in snapshots.items()}
            return self._settle(before, label, name)
        except BaseException:
            for path, snapshot in snapshots.items():
                self.files[path].restore(snapshot)
            raise

    def diff(self) -> str:
        """One unified diff of all files; its paths are relative to `root`."""
        files = sorted(self.files.values(), key=lambda file: file.shown)
        return "".join(diff.diff_file(file.original, file.text, file.shown, hunks_of(file)) for file in files)

    def patch_copies(self, into: Path) -> dict[str, str]:
        """Copies of the changed files as the diff makes them, below a folder; see `diff.patch_copies`.
        Raises DoesNotApply: it makes something else of them."""
        texts = {file.path: file.text for file in self.files.values() if file.text != file.original}
        return diff.patch_copies(self.diff(), texts, self.root, into)

    def _settle(self, before: dict[Path, str], label: str, name: str) -> list[str]:
        """Check that the edited sources are Python, and attribute their new lines to the change."""
        touched = []
        for path, file in self.files.items():
            old = before.get(path, file.original)
            if file.text == old:
                continue
            try:
                if path.suffix == ".py":
                    compile(file.text.removeprefix(BOM), file.shown, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise CannotEdit(f"{file.shown} would not be valid Python with {label}: {error}") from error
            touched.append((file, diff.relabel(old, file.text, file.labels, name)))
        for file, labels in touched:
            file.labels = labels
        return [str(file.path) for file, _ in touched]
