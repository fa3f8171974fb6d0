"""The table of docs/evidence/gpu-results.md: read, filled, written.

A row that was not run stays as it was.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from row import Result, Row

Cells = tuple[str, str, str, str]
HEAD = "| what | asked for | measured | device, commit, command |\n|---|---|---|---|\n"
# A message of an error; the log has all of it.
MOST_TEXT = 600


def commands_of(row: Row) -> str:
    """Return how a row is run, as one types it in the repository."""
    told = ", ".join(f"`{' '.join(map(_word, command))}`" for command in row.commands)
    # What would end a cell.
    return told.replace("|", "\\|")


def _word(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={shlex.quote(value) if value else ''}" if equals else shlex.quote(word)


def cells_of(row: Row, result: Result, where: str) -> Cells:
    """Return a row's cells; `where`: device and commit, told only of what was run."""
    text = " ".join(result.text.split()).replace("|", "/")[:MOST_TEXT]
    if result.status == "not run":
        return (row.what, row.asked, f"not run: {text}" if text else "not run", commands_of(row))
    status = "passed" if result.status == "passed" else "**failed**"
    return (row.what, row.asked, f"{status}: {text}", f"{where}, {commands_of(row)}")


def was_run(cells: Cells) -> bool:
    """Return whether a row has a figure."""
    return not cells[2].startswith("not run")


def parse(text: str) -> dict[str, Cells]:
    """Return the rows of a text's table, by their first cells."""
    found = {}
    for line in text.splitlines():
        cells = re.split(r"(?<!\\)\s*\|\s*", line.strip())[1:-1]
        if line.startswith("| ") and len(cells) == 4 and cells[0] != "what":
            found[cells[0]] = (cells[0], cells[1], cells[2], cells[3])
    return found


def render(rows: Iterable[Cells]) -> str:
    """Return the table."""
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def merge(before: dict[str, Cells], rows: Iterable[Row], new: dict[str, Cells]) -> list[Cells]:
    """Return all rows in the catalogue's order: new where it has figures, else as they were."""
    merged = []
    for row in rows:
        cells = new.get(row.what) or cells_of(row, Result("not run", ""), "")
        old = before.get(row.what)
        merged.append(old if old and was_run(old) and not was_run(cells) else cells)
    return merged


def replace(text: str, table: str) -> str:
    """Return a text with another table in the place of its own.

    Raises
    ------
    ValueError
        For a text without a table of these columns.
    """
    begin = text.find(HEAD)
    if begin < 0:
        raise ValueError(f"no table that begins with {HEAD.splitlines()[0]}")
    rest = text[begin:].splitlines(keepends=True)
    lines = next((i for i, line in enumerate(rest) if not line.startswith("|")), len(rest))
    return text[:begin] + table + "".join(rest[lines:])
