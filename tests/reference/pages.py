"""Every page, and what makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reference import (
    algorithms,
    c_api,
    cli,
    codecs,
    errors,
    fates,
    flight_record,
    metrics,
    options,
    public_names,
    python_api,
    status_json,
)
from reference.tree import root


def folder() -> Path:
    return root() / "docs/reference"


def _python(which: public_names.Page) -> Callable[[str], str]:
    return lambda _: python_api.page(which)


# By the file's name under docs/reference: what makes its text, from the text that is there.
PAGES: dict[str, Callable[[str], str]] = {
    "options.md": options.page,
    "codecs.md": codecs.page,
    "algorithms.md": algorithms.page,
    "metrics.md": metrics.page,
    "status-json.md": status_json.page,
    "flight-record.md": flight_record.page,
    "errors.md": errors.page,
    "guarantees.md": fates.page,
    "c-api.md": c_api.page,
    "cli.md": cli.page,
    **{f"python/{which.file}": _python(which) for which in public_names.PAGES},
}
