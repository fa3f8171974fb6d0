"""errors.md: the docstrings of holdfast.errors, and the codes of the C interface."""

from __future__ import annotations

import inspect
import re

from holdfast import errors
from reference.c_header import members, read
from reference.markdown import head, item, paragraph, section

TOP = """
One hierarchy, the same in Python, C and C++. Everything that Holdfast raises is a `HoldfastError`,
whose `ranks` are those that the error is about and whose `epoch` is the number of the view; in C,
`hf_last_error()`, `hf_last_error_ranks()` and `hf_group_epoch()` say the same. The message names
the op, its number and group, the option that governs it, and what to do. The metric
`holdfast_ops_failed_total` counts ops by these names.
"""


def classes() -> list[type[errors.HoldfastError]]:
    """Every error that users can get, in the order in which they are defined; the base first."""
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [value for value in found if issubclass(value, errors.HoldfastError)]


def codes() -> dict[str, tuple[str, str]]:
    """The C status (name and number) and its comment, by the class's name."""
    status = next(part for part in read("holdfast.h").parts if part.name == "hf_status")
    by_class = {}
    for value in members(status):
        name, _, number = value.text.partition(" = ")
        words = name.removeprefix("HF_").title().replace("_", "")
        by_class[words] = (f"{name}` ({number})", value.comment)
    by_class["SystemFailure"] = by_class.pop("System")
    return by_class


def entry(error: type[errors.HoldfastError]) -> str:
    name = error.__name__
    first, *rest = inspect.cleandoc(error.__doc__ or "").split("\n\n")
    text = section(f"`{name}`") + paragraph(marked(first)) + "\n"
    for block in rest:
        label, colon, said = block.partition(": ")
        if block.startswith("Parameters"):
            break
        text += item(f"**{label}**: {marked(said)}") if colon else item(marked(block))
    if name in codes():
        code, meaning = codes()[name]
        text += item(f"C: `{code}: {meaning}")
    bases = [base.__name__ for base in error.__bases__]
    return text + item(f"is also: {', '.join(f'`{base}`' for base in bases)}")


def marked(text: str) -> str:
    """Names of a docstring as Markdown has them."""
    return re.sub(r":\w+:`~?([^`]+)`|``([^`]+)``", lambda m: f"`{m[1] or m[2]}`", text)


def page(_: str) -> str:
    text = head("Errors", "`bindings/holdfast/errors.py` and `native/include/holdfast/holdfast.h`")
    return text + TOP + "".join(entry(error) for error in classes())
