"""The public names of the package, in the pages that they are on, and their members."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from reference import docstring

OWN = "holdfast"


class Page(NamedTuple):
    """A page, and the modules whose public names it has."""

    file: str
    title: str
    modules: tuple[str, ...]
    top: str


PAGES = (
    Page(
        "holdfast.md",
        "holdfast",
        ("holdfast", "holdfast.comm"),
        "`import holdfast` has all of this, and what is for [torch](torch.md); `HostTensor` is in "
        "`holdfast.comm`, errors are in [errors.md](../errors.md). Arrays are NumPy arrays, torch "
        "tensors, or a GPU's with `__cuda_array_interface__`.",
    ),
    Page(
        "torch.md",
        "holdfast and torch",
        ("holdfast",),
        "What a program calls beside torch's own functions: `import holdfast` has all of this, and "
        '`init_process_group("holdfast")` needs no import.',
    ),
    Page(
        "compress.md",
        "holdfast.compress",
        ("holdfast.compress",),
        "Reducers for DDP and FSDP2, and optimisers that communicate little "
        "([the guide](../../guide/slow-links.md)). Codecs of collectives are in "
        "[codecs.md](../codecs.md).",
    ),
    Page(
        "ft.md",
        "holdfast.ft",
        (
            "holdfast.ft",
            "holdfast.ft.health.collector",
            "holdfast.ft.health.status",
            "holdfast.ft.health.live",
            "holdfast.ft.health.evidence",
            "holdfast.ft.health.diagnosis",
            "holdfast.ft.health.finding",
        ),
        "Trainers that exchange seldom ([the guide](../../guide/outer-steps.md)), and what "
        "`holdfast doctor` and `holdfast top` are made of, for programs that ask themselves "
        "([health.md](../../operate/health.md)).",
    ),
    Page(
        "topology.md",
        "holdfast.topology",
        ("holdfast.topology.codec_cost", "holdfast.topology.link_fit"),
        "What links cost, and what a codec is worth on them.",
    ),
)


class Name(NamedTuple):
    """A public name: where it is imported from, what it is called there, and what it is."""

    module: str
    name: str
    value: Any


def public(module_name: str) -> Iterator[Name]:
    """The names of a module's ``__all__``, or else those that it defines without an underscore."""
    module = importlib.import_module(module_name)
    exported = getattr(module, "__all__", None)
    if exported is not None:
        for name in exported:
            yield Name(module_name, name, getattr(module, name))
        return
    for name, value in vars(module).items():
        defined = getattr(value, "__module__", None) == module_name
        if defined and not name.startswith("_") and (inspect.isclass(value) or callable(value)):
            yield Name(module_name, name, value)


def names(page: Page) -> list[Name]:
    """The names of a page, those of several modules once. Errors have a page of their own."""
    found: dict[int, Name] = {}
    for module in page.modules:
        for name in public(module):
            if not (inspect.isclass(name.value) and issubclass(name.value, BaseException)):
                found.setdefault(id(name.value), name)
    return [name for name in found.values() if is_for_torch(name) == (page.file == "torch.md")]


def is_for_torch(name: Name) -> bool:
    """Whether it is called beside torch.distributed's own functions."""
    return getattr(name.value, "__module__", "") in (
        "holdfast.torch",
        "holdfast._ddp",
        "holdfast._torch_calls",
    )


def own_bases(value: type) -> list[type]:
    """The class and those of its bases that are Holdfast's, the nearest first."""
    return [base for base in value.__mro__ if base.__module__.startswith(OWN)]


@functools.cache
def listed() -> dict[type, str]:
    """The classes that are on some page."""
    found = (name for which in PAGES for name in names(which) if inspect.isclass(name.value))
    return {name.value: name.name for name in found}


def is_put_there(value: type, member: Any) -> bool:
    """Whether torch put an inherited method into the class itself.

    The first optimiser of a class that is made replaces the class's `step` by one that profiles.
    """
    return hasattr(member, "hooked") and member.__qualname__ != f"{value.__qualname__}.step"


def members(value: type) -> dict[str, Any]:
    """Public methods and properties: its own, and those of bases that no page tells of."""
    found: dict[str, Any] = {}
    told = {above for base in own_bases(value)[1:] if base in listed() for above in own_bases(base)}
    for base in reversed(own_bases(value)):
        if base in told:
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or is_put_there(base, member):
                continue
            if isinstance(member, property | staticmethod | classmethod) or inspect.isfunction(
                member
            ):
                found[name] = member
    return found


def has_own_init(value: type) -> bool:
    """Whether a class is made by its users, and not around something of the native core."""
    if "Parameters" not in docstring.read(value).sections:
        return False
    return not any(
        "_core." in str(p.annotation) for p in inspect.signature(value).parameters.values()
    )


def is_alias(value: Any) -> bool:
    return not inspect.isroutine(value) and type(value).__module__ != "nanobind"
