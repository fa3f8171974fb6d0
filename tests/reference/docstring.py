"""numpy docstrings: their parts, and what those are in Markdown."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

from reference.markdown import code, item, paragraph

SECTIONS = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "Notes",
    "References",
    "Examples",
)


class Docstring(NamedTuple):
    """The text before the first section, and the sections' lines by name."""

    text: str
    sections: dict[str, str]


def read(value: object) -> Docstring:
    """The docstring of an object; of a native function without its first line, the signature."""
    doc = getattr(value, "__doc__", None) or ""
    if type(value).__module__ == "nanobind":
        doc = doc.partition("\n")[2]
    return split(inspect.cleandoc(doc))


def split(doc: str) -> Docstring:
    names = "|".join(SECTIONS)
    parts = re.split(rf"(?m)^({names})\n-+\n", doc)
    return Docstring(parts[0].strip(), dict(zip(parts[1::2], parts[2::2], strict=True)))


def entries(lines: str) -> list[tuple[str, str]]:
    """Pairs (first line, text below it) of a section."""
    found: list[tuple[str, str]] = []
    for line in lines.strip("\n").splitlines():
        if line and not line.startswith(" "):
            found.append((line, ""))
        elif found:
            first, below = found[-1]
            found[-1] = (first, f"{below}\n{line}" if below else line)
    return [(first, inspect.cleandoc(below)) for first, below in found]


def inline(text: str) -> str:
    """Roles, literals and footnotes of reStructuredText as Markdown."""
    # From docs/reference/python, where docstrings are shown.
    text = re.sub(r"\bdocs/(reference|operate|guide)/([\w-]+\.md)", r"[\2](../../\1/\2)", text)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"\s*\[(\d+)\]_", r" [\1]", text)


def prose(text: str) -> str:
    """Paragraphs, lists and literal blocks."""
    blocks = []
    for block in re.split(r"\n{2,}", text.strip()):
        if block.startswith((">>> ", "    ")):
            blocks.append(code(inspect.cleandoc(block) if block[0] == " " else block, "python"))
        elif block.startswith("- "):
            blocks.append(
                "".join(item(inline(part)) for part in re.split(r"(?m)^- ", block) if part)
            )
        else:
            blocks.append(paragraph(inline(re.sub(r"::$", ":", block))))
    return "\n".join(blocks)


def fields(lines: str) -> str:
    """Parameters, attributes: ``name : type`` and what it means."""
    text = ""
    for first, below in entries(lines):
        name, _, kind = first.partition(" : ")
        names = ", ".join(f"`{part}`" for part in name.split(", "))
        kind = f" ({inline(kind)})" if kind else ""
        text += item(f"{names}{kind}" + (f": {inline(below)}" if below else ""))
    return text


def results(lines: str) -> str:
    """What is returned or raised: a type, and what it means."""
    text = ""
    for first, below in entries(lines):
        types = first.split(", ") if re.fullmatch(r"[A-Z]\w+(, [A-Z]\w+)+", first) else [first]
        names = ", ".join(f"`{part}`" for part in types)
        text += item(names + (f": {inline(below)}" if below else ""))
    return text


def references(lines: str) -> str:
    joined = re.sub(r"\n\s+", " ", lines.strip())
    return "".join(item(re.sub(r"^\.\. ", "", line)) for line in joined.splitlines() if line)


def markdown(doc: Docstring) -> str:
    """The whole docstring."""
    text = prose(doc.text)
    for name, lines in doc.sections.items():
        text += f"\n**{name}**\n\n"
        if name in ("Parameters", "Attributes"):
            text += fields(lines)
        elif name in ("Returns", "Yields", "Raises", "Warns"):
            text += results(lines)
        elif name == "References":
            text += references(lines)
        else:
            text += prose(lines)
    return text
