"""Writes the C++ that follows from the tables of this folder.

python generate.py calls OUT              declarations of all bodies
python generate.py entries ABI FOLDER OUT...  entry points of an ABI in as many files as are named;
                                          bodies are looked for in the sources below FOLDER
python generate.py values ABI OUT         constants and handles of an ABI
python generate.py header OUT             mpi.h of the standard ABI
python generate.py unsupported FOLDER OUT  names of functions that refuse, a line each
python generate.py data OUT               variables that Open MPI's ABI has for handles
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import data
import entries
import header
import values
from table import OBJECTS, TABLE, Row, parse


def calls_header(rows: list[Row]) -> str:
    """Return the declarations of all bodies."""
    bodies = [row for row in rows if not entries.is_conversion(row)]
    declarations = "\n".join(row.declaration() for row in bodies)
    classes = "\n".join(f"struct {name};" for name in sorted(OBJECTS.values()))
    return f"""// Written by bindings/mpi/generate.py: the bodies of all functions of the table.
#pragma once

#include <cstdint>
#include <string_view>

#include "mpi/core/call.h"

namespace holdfast::mpi {{

{classes}

// The bodies; an error code (constants.h) where nothing else is returned.
namespace body {{

{declarations}

}}  // namespace body
}}  // namespace holdfast::mpi
"""


def written_bodies(folder: Path) -> set[str]:
    """Return the names of the bodies that the sources below a folder define."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.cpp")):
        found.update(re.findall(r"^\S+ (?:body::)?([A-Z]\w+)\(\s*Call&", path.read_text(), re.M))
    return found


def write_entries(abi: str, folder: str, outs: list[str]) -> None:
    """Write the entry points of an ABI, in equal parts."""
    rows, refused = parse(TABLE.read_text())
    written = written_bodies(Path(folder))
    parts = len(outs)
    for part, out in enumerate(outs):
        mine = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        also = refused if part == parts - 1 else []
        Path(out).write_text(entries.source(abi, mine, also, written))


def refused_names(folder: str) -> list[str]:
    """Return the names of the entry points that refuse, whatever they are given."""
    rows, refused = parse(TABLE.read_text())
    written = written_bodies(Path(folder))
    unwritten = [
        f"{row.name}{suffix}"
        for row in rows
        if row.name not in written and not entries.is_conversion(row)
        for suffix in (("", "_c") if row.has_twin() else ("",))
    ]
    return sorted(f"MPI_{name}" for name in refused + unwritten)


def main() -> None:
    """Write what the command line asks for."""
    rows, _ = parse(TABLE.read_text())
    action, *rest = sys.argv[1:]
    if action == "calls":
        Path(rest[0]).write_text(calls_header(rows))
    elif action == "entries":
        write_entries(rest[0], rest[1], rest[2:])
    elif action == "values":
        Path(rest[1]).write_text(values.source(rest[0]))
    elif action == "data":
        Path(rest[0]).write_text(data.source())
    elif action == "header":
        Path(rest[0]).write_text(header.source())
    elif action == "unsupported":
        Path(rest[1]).write_text("\n".join(refused_names(rest[0])) + "\n")
    else:
        actions = "calls, data, entries, header, unsupported, values"
        raise SystemExit(f"generate.py: {action!r} is not one of: {actions}")


if __name__ == "__main__":
    main()
