"""Writes an ABI's values: translations of constants, limits, and handles of predefined objects."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from entries import MEANINGS

FOLDER = Path(__file__).with_name("abi")
ABIS = ("standard", "mpich", "openmpi")
KINDS = {
    "comm": "kComm",
    "group": "kGroup",
    "op": "kOp",
    "type": "kType",
    "request": "kRequest",
    "message": "kMessage",
    "info": "kInfo",
    "errhandler": "kErrhandler",
    "session": "kSession",
}
LIMITS = (
    "MPI_MAX_OBJECT_NAME",
    "MPI_MAX_ERROR_STRING",
    "MPI_MAX_PROCESSOR_NAME",
    "MPI_MAX_LIBRARY_VERSION_STRING",
    "MPI_MAX_INFO_KEY",
    "MPI_MAX_INFO_VAL",
)
# What the core has where it has not the standard's value (core/constants.h).
CORE = {"MPI_DISTRIBUTE_DFLT_DARG": -49767}
# What a program is told of errors that its ABI has no name for.
SUBSTITUTES = {"MPI_ERR_ERRHANDLER": "MPI_ERR_ARG", "MPI_ERR_ABI": "MPI_ERR_OTHER"}


def table(name: str) -> list[list[str]]:
    """Return the rows of a table of abi/."""
    lines = (FOLDER / name).read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def constants(abi: str) -> dict[str, tuple[str, int, int | None]]:
    """Return meaning, core's value and the ABI's by name; None: the ABI has no such name."""
    column = 2 + ABIS.index(abi)
    rows = table("constants.table")
    values = {row[1]: row[column] for row in rows}
    found = {}
    for meaning, name, standard, *_ in rows:
        value = values[SUBSTITUTES.get(name, name)] if values[name] == "-" else values[name]
        core = CORE.get(name, int(standard))
        found[name] = (meaning, core, None if value == "-" else int(value))
    return found


def _switch(pairs: list[tuple[int, int, str]]) -> list[str]:
    lines = ["      switch (value) {"]
    seen = set()
    for given, result, name in pairs:
        if given not in seen:
            seen.add(given)
            lines += [f"        case {given}:  // {name}", f"          return {result};"]
    return [*lines, "        default:", "          break;", "      }", "      break;"]


def _translation(abi: str, function: str) -> str:
    by_meaning = defaultdict(list)
    for name, (meaning, core, value) in constants(abi).items():
        if meaning in MEANINGS and value is not None:
            pair = (value, core, name) if function == "known_to_core" else (core, value, name)
            # A substitute is told to the program, and not taken from it.
            if not (function == "known_to_core" and _is_substitute(abi, name)):
                by_meaning[meaning].append(pair)
    lines = [
        f"std::optional<int> {function}(Meaning meaning, int value) {{",
        "  switch (meaning) {",
    ]
    for meaning, pairs in by_meaning.items():
        lines += [f"    case Meaning::{MEANINGS[meaning]}:", *_switch(pairs)]
    lines += ["    default:", "      break;", "  }", "  return std::nullopt;", "}"]
    return "\n".join(lines)


def _is_substitute(abi: str, name: str) -> bool:
    row = next(row for row in table("constants.table") if row[1] == name)
    return name in SUBSTITUTES and row[2 + ABIS.index(abi)] == "-"


def _handles(abi: str) -> str:
    """Return kHandles: kind, number, handle, and in Open MPI's ABI the symbols first."""
    rows = []
    symbols = []
    for kind, _name, core, *handles in table("handles.table"):
        handle = handles[ABIS.index(abi)]
        if core == "-" or handle == "-":
            continue
        value = f"&{handle}" if abi == "openmpi" else f"static_cast<int>({handle})"
        symbols.append(handle)
        rows.append(f"    {{Kind::{KINDS[kind]}, {core}, {value}}},")
    kind = "Predefined*" if abi == "openmpi" else "int"
    declared = "".join(f"HOLDFAST_MPI extern Predefined {symbol};\n" for symbol in symbols)
    before = f'extern "C" {{\n{declared}}}\n\n' if abi == "openmpi" else ""
    body = "\n".join(rows)
    return f"""{before}struct HandleRow {{
  Kind kind;
  std::int32_t number;
  {kind} handle;
}};
inline constexpr HandleRow kHandles[] = {{
{body}
}};"""


def source(abi: str) -> str:
    """Return the header with an ABI's values, which its abi.cpp alone includes."""
    known = constants(abi)
    limits = ", ".join(str(known[name][2]) for name in LIMITS)
    includes = '#include "mpi/core/predefined.h"\n'
    if abi == "openmpi":
        includes = '#include "mpi/abi/openmpi/abi.h"\n' + includes
    return f"""// Written by bindings/mpi/generate.py of abi/constants.table and abi/handles.table.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/core/abi.h"
{includes}
namespace holdfast::mpi::entry {{

inline constexpr int kVersion = {known["MPI_VERSION"][2]};
inline constexpr int kSubversion = {known["MPI_SUBVERSION"][2]};
inline constexpr int kLastCode = {known["MPI_ERR_LASTCODE"][2]};
inline constexpr TextLimits kLimits = {{{limits}}};

{_handles(abi)}

inline {_translation(abi, "known_to_core")}

inline {_translation(abi, "known_from_core")}

}}  // namespace holdfast::mpi::entry
"""
