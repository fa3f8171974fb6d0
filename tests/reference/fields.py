"""Documents of JSON: their fields, and how a real document is compared with them.

The words stand here, since JSON is written field by field; the test walks what running processes
say, and fails for a field that is not here, that is not there, or that has another type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reference.markdown import item, section

KINDS = {
    "integer": (int,),
    "number": (int, float),
    "number or null": (int, float, type(None)),
    "text": (str,),
    "flag": (bool,),
    "integer or null": (int, type(None)),
    "integer or text": (int, str),
    "list": (list,),
    "object": (dict,),
}


class Field(NamedTuple):
    """One field: where it is, as ``worlds[].ranks[].state``, what it is, what it means."""

    path: str
    kind: str
    meaning: str
    # Not in every document: why.
    only: str = ""


def sections(fields: list[Field], titles: dict[str, str]) -> str:
    """The fields, under the title of the object that has them."""
    text = ""
    for inside, title in titles.items():
        text += section(title)
        for field in fields:
            parent, _, name = field.path.rpartition(".")
            if parent == inside:
                only = f" Only {field.only}." if field.only else ""
                text += item(f"`{name}` ({field.kind}): {field.meaning}{only}")
    return text


def walk(document: Any, opaque: set[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every (path, value) of a document, of each item of a list; not within what is opaque."""
    if isinstance(document, dict):
        for name, value in document.items():
            inside = f"{path}.{name}" if path else name
            inside += "[]" if isinstance(value, list) else ""
            yield inside, value
            if inside not in opaque:
                yield from walk(value, opaque, inside)
    elif isinstance(document, list):
        for value in document:
            yield from walk(value, opaque, path)


def differences(fields: list[Field], documents: list[Any]) -> list[str]:
    """Where real documents and the page's fields differ; empty: nowhere."""
    known = {field.path: field for field in fields}
    parents = {field.path.rpartition(".")[0] for field in fields}
    opaque = {field.path for field in fields if field.kind == "object"} - parents
    wrong, found = set(), set()
    for document in documents:
        for path, value in walk(document, opaque):
            found.add(path)
            if path not in known:
                wrong.add(f"{path} is in the document and not on the page")
            elif type(value) not in KINDS[known[path].kind]:
                wrong.add(f"{path} is {value!r}; the page says {known[path].kind}")
    wrong |= {f"{path} is on the page and in no document" for path in known.keys() - found}
    return sorted(wrong)
