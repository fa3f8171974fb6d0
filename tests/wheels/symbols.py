"""Whether a torch module fits the torch libraries that it meets: names, symbols, pybind11.

A module is linked against stubs, so no linker has looked at what it takes from torch. This does,
for every undefined symbol, without loading anything.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# pybind11 keeps the types of all modules in one table per key; with another key a module would not
# know torch's classes. The key is a string in whatever was compiled with pybind11.
_INTERNALS = re.compile(rb"__pybind11_internals_[\w.]+?__")
_TORCH = ("libtorch_cpu.so", "libc10.so", "libtorch_python.so")
# What the interpreter exports: that is another library's, which the wheel's tag vouches for.
_PYTHON = re.compile(r"_?Py[A-Z_]")


@dataclass(frozen=True)
class Fit:
    """What was found; `problems` is empty when the module fits."""

    symbols: int
    problems: tuple[str, ...]


def _nm(library: Path, which: str) -> set[str]:
    done = subprocess.run(
        ["nm", "--dynamic", which, "--format=posix", library],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return {line.split(" ")[0].split("@")[0] for line in done.stdout.splitlines()}


def _undefined(library: Path) -> dict[str, str]:
    """Undefined symbols, with the version that they are asked for in; weak ones may stay so."""
    done = subprocess.run(
        ["nm", "--dynamic", "--undefined-only", library],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    strong = (line.split() for line in done.stdout.splitlines() if line.split()[0] == "U")
    return dict((*words[1].split("@", 1), "")[:2] for words in strong)


def _dynamic(library: Path, tags: str) -> list[str]:
    done = subprocess.run(
        ["readelf", "--dynamic", "--wide", library],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return re.findall(rf"\((?:{tags})\).*\[(.*)\]", done.stdout)


def misplaced(package: Path) -> list[str]:
    """Libraries of the package that look elsewhere than beside themselves."""
    found = {library.name: _dynamic(library, "RPATH|RUNPATH") for library in package.glob("*.so")}
    return [f"{name} looks in {paths}" for name, paths in found.items() if paths != ["$ORIGIN"]]


def internals(library: Path) -> set[bytes]:
    return set(_INTERNALS.findall(library.read_bytes()))


def look(module: Path, torch_lib: Path) -> Fit:
    """Compare a module with the libraries of a torch.

    Parameters
    ----------
    module : Path
        ``_c10d_2_13...so``.
    torch_lib : Path
        The folder ``torch/lib``.
    """
    asked = _dynamic(module, "NEEDED")
    problems = [f"asks for no {name}" for name in _TORCH if name not in asked]
    exported: set[str] = set()
    for name in _TORCH:
        exported |= _nm(torch_lib / name, "--defined-only")
    # A version names the library that has the symbol: glibc's, libstdc++'s, libholdfast's.
    unversioned = {
        symbol
        for symbol, version in _undefined(module).items()
        if not version and not _PYTHON.match(symbol)
    }
    missing = sorted(unversioned - exported)
    problems += [f"undefined: {symbol}" for symbol in missing]
    ours, theirs = internals(module), internals(torch_lib / "libtorch_python.so")
    if not ours & theirs:
        problems.append(f"pybind11's table is {ours}, and torch's {theirs}")
    return Fit(len(unversioned), tuple(problems))
