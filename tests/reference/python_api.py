"""python/*.md: every public name of the package, with its signature and docstring."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from reference import docstring
from reference.markdown import WIDTH, anchor, code, head, item, paragraph, section
from reference.method_docs import told
from reference.public_names import (
    Name,
    Page,
    has_own_init,
    is_alias,
    listed,
    members,
    names,
    own_bases,
)

# ---- signatures ----------------------------------------------------------------------------------


def shown(annotation: Any) -> str:
    """An annotation as it stands in the source."""
    if isinstance(annotation, str):
        return ast.unparse(ast.parse(annotation.strip("'\""), mode="eval"))
    generic = hasattr(annotation, "__origin__")
    return str(annotation) if generic else getattr(annotation, "__name__", str(annotation))


def parameter(value: inspect.Parameter) -> str:
    stars = {value.VAR_POSITIONAL: "*", value.VAR_KEYWORD: "**"}.get(value.kind, "")
    text = f"{stars}{value.name}"
    if value.annotation is not value.empty:
        text += f": {shown(value.annotation)}"
    if value.default is not value.empty:
        default = "..." if repr(value.default).startswith("<") else repr(value.default)
        text += f" = {default}" if ": " in text else f"={default}"
    return text


def signature(name: str, value: Callable[..., Any]) -> str:
    """How a function is called, in lines of at most WIDTH columns."""
    if type(value).__module__ == "nanobind":
        line = (value.__doc__ or "").partition("\n")[0]
        return line.removeprefix("def ")
    found = inspect.signature(value)
    parts: list[str] = []
    starred = False
    for each in found.parameters.values():
        if each.name in ("self", "cls") or each.name.startswith("_"):
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY)
        parts.append(parameter(each))
    inside = inspect.isclass(value) or found.return_annotation is found.empty
    returns = "" if inside else f" -> {shown(found.return_annotation)}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"


def attribute_docs(value: type) -> dict[str, tuple[str, str]]:
    """Type and meaning of a NamedTuple's or a dataclass's fields that have a line below them."""
    source = inspect.getsource(value)
    body = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node, below in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        meaning = str(below.value.value) if said else ""  # type: ignore[union-attr]
        found[node.target.id] = (ast.unparse(node.annotation), meaning)
    return found


def fields_text(value: type) -> str:
    """Fields that the docstring does not list already."""
    if has_own_init(value) or not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        return ""
    text = ""
    for name, (kind, meaning) in attribute_docs(value).items():
        if not name.startswith("_"):
            told = f": {docstring.inline(meaning)}" if meaning else ""
            text += item(f"`{name}` ({docstring.inline(kind)}){told}")
    return f"\n**Fields**\n\n{text}" if text else ""


def member_text(owner: Name, name: str, member: Any) -> str:
    text = section(f"`{owner.name}.{name}`", 3)
    doc = told(owner.value, name)
    if isinstance(member, property):
        returns = inspect.signature(member.fget).return_annotation  # type: ignore[arg-type]
        return text + code(f"{name}: {shown(returns)}", "python") + "\n" + docstring.markdown(doc)
    bare = member.__func__ if isinstance(member, staticmethod | classmethod) else member
    return text + code(signature(name, bare), "python") + "\n" + docstring.markdown(doc)


def class_text(name: Name) -> str:
    value, text = name.value, ""
    if has_own_init(value):
        text += code(f"class {signature(name.name, value)}", "python") + "\n"
    doc = docstring.read(value)
    if not has_own_init(value):
        doc.sections.pop("Parameters", None)
    text += docstring.markdown(doc) + fields_text(value) + method_text(value)
    bases = [f"`{listed()[base]}`" for base in own_bases(value)[1:] if base in listed()]
    if bases:
        text += "\n" + paragraph(f"It has the methods of {', '.join(bases)}, too.")
    return text + "".join(member_text(name, *each) for each in members(value).items())


def method_text(value: Any) -> str:
    """The paper that an algorithm is from: what the docstring of its module says of it."""
    module = inspect.getmodule(value)
    doc = docstring.read(module)
    if "References" in docstring.read(value).sections or module is None:
        return ""
    if "References" in doc.sections:
        return "\n**References**\n\n" + docstring.references(doc.sections["References"])
    cites = module.__name__.startswith("holdfast.compress.") and "arXiv" in doc.text
    return f"\n**Method**\n\n{docstring.prose(doc.text)}" if cites else ""


def title(name: Name) -> str:
    """A heading; a class and a function may have one name but for its case."""
    return f"class `{name.name}`" if inspect.isclass(name.value) else f"`{name.name}`"


def entry(name: Name) -> str:
    text = section(title(name))
    if name.module.count(".") > 1:  # not what its package has as a whole
        text += paragraph(f"In `{name.module}`.") + "\n"
    if inspect.isclass(name.value):
        return text + class_text(name)
    if is_alias(name.value):
        kind = re.sub(r"\b\w+\.(?=\w)", "", str(name.value))
        return text + code(f"{name.name} = {kind}", "python") + "\n" + paragraph(alias_doc(name))
    # What contextlib makes of a generator.
    is_context = inspect.isgeneratorfunction(inspect.unwrap(name.value))
    is_context &= hasattr(name.value, "__wrapped__")
    called = signature(name.name, name.value)
    shown_as = f"with {called.partition(' -> ')[0]}: ..." if is_context else called
    text += code(shown_as, "python") + "\n"
    return text + docstring.markdown(docstring.read(name.value)) + method_text(name.value)


def alias_doc(name: Name) -> str:
    """The text below a type's other name, in the module that gives it."""
    package = importlib.import_module(name.module)
    where = f"{name.module}.{package._ON_FIRST_USE[name.name]}"
    body = ast.parse(inspect.getsource(importlib.import_module(where))).body
    at = next(
        i
        for i, node in enumerate(body)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name.name
    )
    below = body[at + 1]
    assert isinstance(below, ast.Expr)
    assert isinstance(below.value, ast.Constant)
    return str(below.value.value)


def first_sentence(name: Name) -> str:
    value = name.value
    said = (
        alias_doc(name)
        if is_alias(value) and not inspect.isclass(value)
        else docstring.read(value).text
    )
    text = " ".join(docstring.inline(said.partition("\n\n")[0]).split())
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def page(which: Page) -> str:
    found = names(which)
    text = head(which.title, "the docstrings") + "\n" + paragraph(which.top) + "\n"
    for name in found:
        text += item(f"[`{name.name}`](#{anchor(title(name))}): {first_sentence(name)}")
    return text + "".join(entry(name) for name in found)
