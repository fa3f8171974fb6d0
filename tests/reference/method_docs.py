"""What a method's docstring says, with what it leaves to another method's.

A method that overrides another has its sections, unless it has its own; one that says "as in" a
method has the words of that one for the parameters that it only names.
"""

from __future__ import annotations

import inspect
import re

from reference import docstring
from reference.public_names import listed, own_bases


def protocols(value: type) -> list[type]:
    """The protocols on the pages that the class has the methods of, those with most first."""
    found = [
        each
        for each in listed()
        if getattr(each, "_is_protocol", False)
        and all(hasattr(value, name) for name in vars(each) if not name.startswith("_"))
    ]
    return sorted(found, key=lambda each: -len(vars(each)))


# A docstring that leaves a part of itself to another method's.
AS_IN = re.compile(r"as in :meth:`(\w+)`", re.IGNORECASE)


def told(value: type, name: str) -> docstring.Docstring:
    """A method's docstring, with what it leaves to the method that it overrides, or names."""
    doc = written(value, name)
    said = doc.sections.get("Parameters", "")
    other = AS_IN.search(f"{doc.text}\n{said}")
    if other is None:
        return doc
    model = told(value, other[1])
    theirs, own = by_parameter(model), by_parameter(doc)
    lines, more = [], {}
    for each in inspect.signature(getattr(value, name)).parameters:
        kind, below = own.get(each, ("", f"As in :meth:`{other[1]}`."))
        if AS_IN.match(below):
            # Words behind "as in" are about several parameters: they go into the text.
            more[below.partition(". ")[2]] = None
            kind, below = theirs.get(each, (kind, ""))
        if each != "self":
            lines += [f"{each} : {kind}", *(f"    {line}" for line in below.splitlines())]
    kept = {k: v for k, v in doc.sections.items() if k != "Parameters"}
    left = {k: v for k, v in model.sections.items() if k in ("Returns", "Raises")}
    text = re.sub(r"[;,] [^;,.]*as in :meth:`\w+`", "", doc.text)
    text = "\n\n".join([text, *(words for words in more if words)])
    return docstring.Docstring(text, {"Parameters": "\n".join(lines), **left, **kept})


def by_parameter(doc: docstring.Docstring) -> dict[str, tuple[str, str]]:
    """Type and meaning of each parameter."""
    found = {}
    for first, below in docstring.entries(doc.sections.get("Parameters", "")):
        names_of, _, kind = first.partition(" : ")
        found.update(dict.fromkeys(names_of.split(", "), (kind, below)))
    return found


def written(value: type, name: str) -> docstring.Docstring:
    """A method's docstring; sections that it lacks are those of the method that it overrides."""
    text, sections = "", {}
    for base in [*own_bases(value), *protocols(value)]:
        member = vars(base).get(name)
        if member is None:
            continue
        bare = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        doc = docstring.read(bare.fget if isinstance(bare, property) else bare)
        text = text or doc.text
        sections = {**doc.sections, **sections}
    return docstring.Docstring(text, sections)
