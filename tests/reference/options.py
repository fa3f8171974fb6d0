"""options.md: the page that native/runtime/option_page.cpp makes of the table of options."""

from __future__ import annotations

from holdfast import _core


def page(_: str) -> str:
    return _core.options_page()
