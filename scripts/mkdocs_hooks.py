"""A hook of mkdocs: README and its neighbours become pages, and links fit the site.

Pages are written to be read in the repository. In the site README.md is the first page; ARCHITECTURE,
CONTRIBUTING and CHANGELOG stand beside it; the decisions have a list. A link to a file that is no page, such
as source code, becomes the file's name: the site stands alone.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "README.md": "index.md",
    **{name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")},
}
DECISIONS = "decisions.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Every decision stands in the navigation, under the last section."""
    names = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    *_, section = config.nav
    section["Project"].append({"Decisions": [DECISIONS, *(f"decisions/{name}" for name in names)]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not lie in docs/."""
    from mkdocs.structure.files import File

    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    titles = [
        (path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "), path.name)
        for path in sorted((ROOT / "docs/decisions").glob("*.md"))
    ]
    listed = "\n".join(f"- [{title}](docs/decisions/{name})" for title, name in titles)
    files.append(
        File.generated(config, DECISIONS, content=f"# Decisions\n\nWhat each one costs, too.\n\n{listed}\n")
    )
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links of one page as the site has them."""
    is_beside = page.file.src_uri in (*BESIDE.values(), DECISIONS)
    return fitted(markdown, page.file.src_uri if is_beside else f"docs/{page.file.src_uri}")


def fitted(markdown: str, where: str) -> str:
    """Links from a page at `where` in the repository, as paths of the site; those to no page become code.

    Raises:
        FileNotFoundError: a link names a file that does not exist.
    """
    own = posixpath.dirname(where.removeprefix("docs/") if where.startswith("docs/") else where)

    def link(found: re.Match[str]) -> str:
        image, text, path, anchor = found[1], found[2], found[3], found[4] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(where), path))
        if not (ROOT / target).exists():
            raise FileNotFoundError(f"{where} links to {target}, which does not exist")
        page = DECISIONS if target == "docs/decisions" else BESIDE.get(target, target.removeprefix("docs/"))
        if page == target and target not in BESIDE.values():
            return f"{text} (`{target}`)" if text.strip("`") not in target else f"`{target}`"
        return f"{image}[{text}]({posixpath.relpath(page, own or '.')}{anchor})"

    return LINK.sub(link, markdown)
