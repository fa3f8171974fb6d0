"""The declarations of the C headers, in their order, each with its comment.

The headers have a regular form: sections ``/* ---- name ---- */``, and before a declaration its
comment, at the start of a line. What is within a struct or an enum has its comment beside it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reference.tree import root

FOLDER = root() / "native/include/holdfast"
HEADERS = ("holdfast.h", "holdfast_device.h")


class Part(NamedTuple):
    """A declaration: ``function``, ``struct``, ``enum``, ``handle`` or ``macro``."""

    kind: str
    name: str
    text: str
    comment: str
    section: str


class Header(NamedTuple):
    """A header: its first comment, and its declarations."""

    about: str
    parts: list[Part]


TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)"
    r"|(?P<macro>^#define (?P<macro_name>\w+).*?$)"
    r"|(?P<directive>^#[^\n]*$)"
    r"|(?P<block>^typedef (?P<block_kind>enum|struct) (?P<block_name>\w+) \{.*?\} \w+;)"
    r"|(?P<handle>^typedef struct (?P<handle_name>\w+) \w+;)"
    r"|(?P<function>^[a-z][^;{}]*?\b(?P<function_name>hf_\w+)\([^;{}]*?\);)"
    r"|(?P<linkage>^extern \"C\" \{|^\}$)",
    re.DOTALL | re.MULTILINE,
)


def plain(comment: str) -> str:
    """A comment's words, one paragraph for each of its own."""
    inside = comment.removeprefix("/*").removesuffix("*/")
    # A star at a line's beginning is the comment's; one that a word begins with is the word's.
    lines = [re.sub(r"^\*(?= |$)", "", line.strip()).strip() for line in inside.splitlines()]
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in paragraphs)


def read(name: str) -> Header:
    """Every declaration of a header. ValueError for text that is none of the known forms."""
    text = (FOLDER / name).read_text()
    about, section, comment = "", "", ""
    parts: list[Part] = []
    at = 0
    for match in TOKEN.finditer(text):
        between = text[at : match.start()]
        if between.strip():
            raise ValueError(f"{name}: {between.strip()!r} has no form that is known")
        # A comment is that of the next declaration, unless an empty line is between them.
        if "\n\n" in between:
            comment = ""
        at = match.end()
        kind = match.lastgroup if match.lastgroup in ("comment", "directive", "linkage") else None
        if match["comment"]:
            title = re.fullmatch(r"/\* ---- (.*) ---- \*/", match["comment"])
            behind = "\n" not in between and parts
            if title:
                section = title[1]
            elif not about:
                about = plain(match["comment"])
            elif behind:
                parts[-1] = parts[-1]._replace(comment=plain(match["comment"]))
            else:
                comment = plain(match["comment"])
        elif match["directive"] or match["linkage"]:
            continue
        else:
            kind, found = declared(match)
            parts.append(Part(kind, found, match[0], comment, section))
            # Declarations without an empty line between them share the comment before the first.
            comment = comment if kind == "macro" else ""
    if text[at:].strip():
        raise ValueError(f"{name}: {text[at:].strip()!r} has no form that is known")
    return Header(about, [part for part in parts if not part.name.endswith("_H")])


def declared(match: re.Match[str]) -> tuple[str, str]:
    for kind in ("macro", "handle", "function"):
        if match[kind]:
            return kind, match[f"{kind}_name"]
    return match["block_kind"], match["block_name"]


class Value(NamedTuple):
    """A name of an enum, or a field of a struct."""

    name: str
    text: str
    comment: str


# What ends at a comma (an enum) or a semicolon (a struct), and the comment behind it.
MEMBER = {
    "enum": re.compile(r"\s*([^,/]+?)\s*(?:,|(?=/)|$)[ \t]*(/\*.*?\*/)?", re.DOTALL),
    "struct": re.compile(r"\s*([^;/]+);[ \t]*(/\*.*?\*/)?", re.DOTALL),
}


def members(part: Part) -> list[Value]:
    """What an enum or a struct has, with the comments beside."""
    inside = part.text[part.text.index("{") + 1 : part.text.rindex("}")].rstrip()
    found: list[Value] = []
    at = 0
    while at < len(inside):
        match = MEMBER[part.kind].match(inside, at)
        if match is None:
            raise ValueError(f"{part.name}: {inside[at:].strip()!r}")
        at = match.end()
        text = " ".join(match[1].split())
        function = re.search(r"\(\*(\w+)\)", text)
        name = function[1] if function else re.findall(r"\w+", text.partition("=")[0])[-1]
        found.append(Value(name, text, plain(match[2] or "/**/")))
    return found
