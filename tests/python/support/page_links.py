"""The Markdown pages of the repository: their links, and the anchors of their headings."""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# An image in the text of a link is a link of its own.
LINK = re.compile(r"\[(?:!\[[^\]]*\]\(([^)\s]+)\)|[^\]\[]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(?ms)^\s*```.*?^\s*```\s*$")


def pages() -> list[str]:
    """Return every page of the repository, as a path from the root."""
    found = list(ROOT.glob("*.md"))
    for folder in ("docs", "examples", "tests"):
        found += (ROOT / folder).rglob("*.md")
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@cache
def prose(page: str) -> str:
    """Return a page's text without its blocks of code."""
    return FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))


def links(page: str) -> list[tuple[str, str]]:
    """Return where a page's links inside the repository lead: path from the root, and anchor."""
    found = []
    for image, target in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        for each in filter(None, (image, target)):
            if re.match(r"[a-z]+:", each):
                continue
            path, _, anchor = each.partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            if path and (ROOT / goal).is_dir():
                goal = posixpath.join(goal, "README.md")
            found.append((goal if path else page, anchor))
    return found


def anchor_of(heading: str) -> str:
    """Return a heading's anchor, as code hosts and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: str) -> frozenset[str]:
    """Return the anchors that links to a page may have."""
    found: list[str] = []
    for heading in re.findall(r"(?m)^#{1,6} (.+)$", prose(page)):
        anchor = anchor_of(heading)
        earlier = sum(re.sub(r"-\d+$", "", other) == anchor for other in found)
        found.append(f"{anchor}-{earlier}" if earlier else anchor)
    return frozenset(found)
