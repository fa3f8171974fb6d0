"""Reads functions.table: its rows, and what C++ has for their arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("functions.table")

# Kinds that are handles, and the class of their objects.
OBJECTS = {
    "comm": "Comm",
    "type": "Datatype",
    "group": "Group",
    "op": "Op",
    "request": "Request",
    "info": "Info",
    "errhandler": "Errhandler",
    "message": "Message",
    "session": "Session",
}
# Kinds of handles without objects: only their null handles are there.
ABSENT = {"file", "win"}
# Kinds that are numbers of 64 bits for bodies.
LONG = {"count", "displacement", "aint", "wide"}


@dataclass(frozen=True)
class Argument:
    """An argument of a function: `direction` is "", ">" (written) or "=" (both)."""

    name: str
    kind: str
    direction: str = ""
    array: bool = False
    nullable: bool = False
    twin_only: bool = False

    @property
    def written(self) -> bool:
        """Say whether the call writes it."""
        return self.direction != ""

    def body_type(self) -> str | None:
        """Return its type in the body's declaration; None: the entry point alone has it."""
        if self.kind == "length":
            return None
        if self.kind in OBJECTS:
            name = OBJECTS[self.kind]
            if self.array:
                return f"const Handles<{name}>&"
            return f"{name}*&" if self.written else f"{name}*"
        fixed = {
            "buffer": "void*" if self.written else "const void*",
            "location": "const void*",
            "address": "void**",
            "attached": "void**",
            "state": "void**" if self.written else "void*",
            "status": "const StatusOut&",
            "function": "Function",
            "argc": "int*",
            "argv": "char***",
            "string": "const TextOut&" if self.written else "std::string_view",
        }
        if self.kind in fixed:
            return fixed[self.kind]
        if self.array:
            return "const OutInts&" if self.written else "const IntArray&"
        number = "bool" if self.kind == "flag" else "std::int64_t" if self.kind in LONG else "int"
        return f"{number}&" if self.written else number


@dataclass(frozen=True)
class Row:
    """A function: its name without MPI_, its arguments, what it returns ("": an error code)."""

    name: str
    arguments: tuple[Argument, ...]
    result: str = ""
    anytime: bool = False

    def has_twin(self) -> bool:
        """Say whether there is a twin for large counts."""
        kinds = {a.kind for a in self.arguments}
        # MPI_Op_create's function has counts of its own.
        return bool(kinds & {"count", "displacement"}) or self.name == "Op_create"

    def declaration(self) -> str:
        """Return the body's declaration."""
        results = {"": "int", "double": "double", "aint": "std::int64_t", "int": "int"}
        result = results.get(self.result) or f"{OBJECTS[self.result]}*"
        types = [(a.body_type(), a.name) for a in self.arguments]
        arguments = ["Call& call", *(f"{t} {n}" for t, n in types if t is not None)]
        return f"{result} {self.name}({', '.join(arguments)});"


def parse_argument(text: str) -> Argument:
    """Read an argument of a row."""
    name, kind = text.split(": ")
    direction = name[0] if name[0] in "<>=" else ""
    array = kind.endswith("[]")
    kind = kind.removesuffix("[]")
    nullable = kind.endswith("?")
    kind = kind.removesuffix("?")
    twin_only = kind.endswith("_c")
    kind = kind.removesuffix("_c")
    return Argument(name[len(direction) :], kind, direction, array, nullable, twin_only)


def parse(text: str) -> tuple[list[Row], list[str]]:
    """Return the rows of the table, and the names of functions that are not supported."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\n    +", " ", "\n".join(lines))
    rows_text, unsupported = joined.split("\nunsupported")
    rows = []
    for line in rows_text.splitlines():
        match = re.fullmatch(r"(anytime )?(\w+)\((.*)\)(?: -> (\w+))?", line)
        if match is None:
            raise ValueError(f"functions.table: not a row: {line!r}")
        anytime, name, arguments, result = match.groups()
        parsed = tuple(parse_argument(a) for a in arguments.split(", ") if a)
        rows.append(Row(name, parsed, result or "", anytime is not None))
    return rows, unsupported.split()
