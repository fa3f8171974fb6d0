"""What public docstrings leave unsaid: parameters, results, errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from reference import docstring
from reference.method_docs import told
from reference.public_names import PAGES, Name, has_own_init, is_alias, members, names


def gaps(name: str, value: Callable[..., Any], doc: docstring.Docstring) -> Iterator[str]:
    """What a function's docstring leaves unsaid: a parameter, or what is returned."""
    if not doc.text:
        yield f"{name} has no docstring"
    if type(value).__module__ == "nanobind":
        return
    said = {
        part.lstrip("*")
        for first, _ in docstring.entries(doc.sections.get("Parameters", ""))
        for part in first.partition(" : ")[0].split(", ")
    }
    found = inspect.signature(value)
    for each in found.parameters:
        if each not in (*said, "self", "cls") and not each.startswith("_"):
            yield f"{name}: Parameters lack {each}"
    gives = str(found.return_annotation).strip("'")
    says = doc.text.startswith("Return ") or {"Returns", "Yields"} & set(doc.sections)
    if gives not in ("None", "Iterator[None]", str(found.empty)) and not says:
        yield f"{name} has no Returns, and gives {gives}"
    ends = re.search(r"^\s+raise [A-Z]", inspect.getsource(value), re.MULTILINE)
    if ends and "Raises" not in doc.sections:
        yield f"{name} raises, and has no Raises"


def class_gaps(name: Name) -> Iterator[str]:
    value = name.value
    if has_own_init(value):
        found = gaps(name.name, value, docstring.read(value))
        yield from (gap for gap in found if "Parameters" in gap)
    for member, method in members(value).items():
        doc = told(value, member)
        if isinstance(method, property):
            if not doc.text:
                yield f"{name.name}.{member} has no docstring"
            continue
        bare = method.__func__ if isinstance(method, staticmethod | classmethod) else method
        yield from gaps(f"{name.name}.{member}", bare, doc)


def all_gaps() -> Iterator[str]:
    """The gaps of every public name's docstring."""
    for which in PAGES:
        for name in names(which):
            if inspect.isclass(name.value):
                yield from class_gaps(name)
            elif not is_alias(name.value):
                yield from gaps(name.name, name.value, docstring.read(name.value))
