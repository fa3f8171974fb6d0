"""A hook of mkdocs: what lies outside of docs/ is in the site too, and indexes give the order.

Pages link to programs, tests and papers of the repository as one does on a code host. Each of these
files goes into the site, a paper as a page and all others as they are, and the link leads there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("guide", "operate", "reference", "evidence", "internals", "decisions")
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(?ms)^(\s*```.*?^\s*```)")


def linked(path: str) -> list[str]:
    """Return where the links of a page of the repository lead, as paths from its root."""
    text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
    found = (target for _, target, _ in LINK.findall(text))
    return [resolve(path, target) for target in found if ":" not in target]


def resolve(path: str, target: str) -> str:
    """Return where a page's link leads, as a path from the root."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def place(path: str) -> str:
    """Return where a file of the repository is in the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir():
        path += "/README.md"
    return f"project/{path}"


def on_config(config: Any) -> Any:
    """Put the pages in the order in which the indexes name them."""
    first = ("README.md", "start.md", "install.md", "status.md")
    nav: list[Any] = [page for page in first if (ROOT / "docs" / page).exists()]
    for folder in FOLDERS:
        index = f"docs/{folder}/README.md"
        pages = list(dict.fromkeys(linked(index)))
        here = [p for p in pages if p.startswith(f"docs/{folder}/") and p != index]
        shown = [place(p) for p in here if folder != "decisions"]
        nav.append({folder.capitalize(): [place(index), *shown]})
    config.nav = nav
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what the pages link to, and what these link to if they are pages."""
    todo = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(todo)
    while todo:
        for path in linked(todo.pop()):
            target = f"{path}/README.md" if (ROOT / path).is_dir() else path
            if target in seen or target.startswith("docs/") or not (ROOT / target).is_file():
                continue
            seen.add(target)
            source = str(ROOT / target)
            files.append(File.generated(config, place(target), abs_src_path=source))
            if target.endswith(".md"):
                todo.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where the files are in the site."""
    uri = page.file.src_uri
    outside = uri.startswith("project/")
    path = uri.removeprefix("project/") if outside else f"docs/{uri}"

    def lead(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if ":" in target:
            return match.group()
        goal = posixpath.relpath(place(resolve(path, target)), posixpath.dirname(uri) or ".")
        return f"{before}{goal}{after}"

    parts = FENCE.split(markdown)
    return "".join(part if n % 2 else LINK.sub(lead, part) for n, part in enumerate(parts))
