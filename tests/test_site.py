"""The built site needs nothing from elsewhere: no fonts, scripts, styles or pictures.

`make docs` builds it, and says where by HOLDFAST_SITE.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

SITE = os.environ.get("HOLDFAST_SITE", "")
# What a browser loads by itself; a link that somebody clicks may lead anywhere.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b"""
    r"""[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon|prefetch|dns-prefetch))"""
    r"""[^>]*\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
)
IN_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")
# Programs that the theme fetches when a page has what needs them; ours have none of it.
FETCHED_WHEN = {"mermaid": 'class="mermaid"'}


def foreign(name: str, text: str) -> list[str]:
    """Return the addresses that a file of the site loads from elsewhere."""
    pattern = IN_STYLE if name.endswith(".css") else LOADED
    return [next(filter(None, match.groups())) for match in pattern.finditer(text)]


def test_what_is_loaded_from_elsewhere_is_found() -> None:
    assert foreign("a.html", '<script src="https://cdn.example/x.js">') == [
        "https://cdn.example/x.js"
    ]
    assert foreign("a.html", '<link rel="stylesheet" href="//fonts.example/f">')
    assert not foreign("a.html", '<a href="https://example.org">elsewhere</a>')
    assert foreign("a.css", "@import 'https://fonts.example/f';")


@pytest.mark.skipif(not SITE, reason="`make docs` builds the site and says where it is")
def test_the_site_loads_nothing_from_elsewhere() -> None:
    files = [path for path in Path(SITE).rglob("*") if path.suffix in (".html", ".css")]
    assert sum(path.suffix == ".html" for path in files) > 30
    loaded = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        loaded += [f"{path}: {address}" for address in foreign(path.name, text)]
        loaded += [f"{path}: {name}" for name, sign in FETCHED_WHEN.items() if sign in text]
    assert not loaded, "\n".join(loaded)


@pytest.mark.skipif(not SITE, reason="`make docs` builds the site and says where it is")
def test_the_search_is_in_the_site() -> None:
    assert (Path(SITE) / "search/search_index.json").stat().st_size > 100_000
