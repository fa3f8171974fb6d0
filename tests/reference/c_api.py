"""c-api.md: every declaration of the C headers, with its comment."""

from __future__ import annotations

import re

from reference.c_header import HEADERS, Header, Part, members, read
from reference.markdown import code, head, item, paragraph, section

TOP = """
What a C program includes, links and calls; [the guide](../guide/c.md) begins at the beginning.
[errors.md](errors.md) says what each status means, and what to do, [options.md](options.md) what
each option does. `holdfast info --cflags --libs` gives the compiler's flags.
"""

# Parts without a section of their own in the header.
FIRST = {"holdfast.h": "types", "holdfast_device.h": "devices"}
NAME = re.compile(r"(?<![\w`])((?:hf_|HF_|HOLDFAST_)\w+(?:\(\))?|sizeof\(\w+\)|counts\[r\])(?!\w)")


def prose(comment: str) -> str:
    """A comment's paragraphs, with the names of the interface marked as code."""
    # What is marked already stays as it is.
    parts = re.split(r"(`[^`]*`)", comment)
    parts[::2] = [NAME.sub(r"`\1`", part).replace("*", "\\*") for part in parts[::2]]
    blocks = "".join(parts).split("\n\n")
    return "\n".join(paragraph(block) for block in blocks if block)


def names(part: Part) -> str:
    """The values of an enum, or the fields of a struct."""
    text = ""
    for member in members(part):
        meaning = prose(member.comment).strip() if member.comment else ""
        text += item(f"`{member.text}`" + (f": {meaning}" if meaning else ""))
    return text


def entry(part: Part, macros: set[str]) -> str:
    text = section(f"`{part.name}`", 3)
    shown = part.text
    if part.kind in ("enum", "struct"):
        return text + (prose(part.comment) + "\n" if part.comment else "") + names(part)
    if part.kind == "function" and part.name in macros:
        shown += " /* and a macro */"
    comment = part.comment
    if part.kind == "handle":
        comment = f"{comment[0].upper()}{comment[1:]}."
    return text + code(shown, "c") + ("\n" + prose(comment) if comment else "")


def header_text(name: str, header: Header) -> str:
    text = section(f"`<holdfast/{name}>`") + prose(header.about)
    functions = {part.name for part in header.parts if part.kind == "function"}
    macros = {part.name for part in header.parts if part.kind == "macro"}
    title = ""
    for part in header.parts:
        if part.kind == "macro" and part.name in functions:
            continue
        if (part.section or FIRST[name]) != title:
            title = part.section or FIRST[name]
            text += section(f"{title[0].upper()}{title[1:]}").rstrip("\n") + "\n"
        text += entry(part, macros)
    return text


def page(_: str) -> str:
    text = head("C interface", "the comments of `native/include/holdfast`")
    return text + TOP + "".join(header_text(name, read(name)) for name in HEADERS)
