"""The numbers of docs/internals/versions.md are those of the program."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from page_links import ROOT

import holdfast
from holdfast import _core

PAGE = (ROOT / "docs/internals/versions.md").read_text(encoding="utf-8")


def told(number: str) -> str:
    found = re.search(rf"(?m)^\| {number} \| (\S+) \|", PAGE)
    assert found is not None, number
    return found.group(1)


def test_the_version_is_that_of_the_package() -> None:
    project = re.search(r'(?m)^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert project is not None
    assert told("version") == holdfast.__version__ == project.group(1)


def test_the_protocol_is_that_of_the_core() -> None:
    assert told("protocol") == str(_core.protocol_version)
    assert f"this side\nversion {_core.protocol_version};" in PAGE


def test_the_abi_is_that_of_the_library_and_its_header() -> None:
    header = (ROOT / "native/include/holdfast/holdfast.h").read_text(encoding="utf-8")
    library = ctypes.CDLL(str(Path(_core.__file__).parent / "libholdfast.so"))
    assert told("C ABI") == str(library.hf_abi_version())
    assert f"#define HF_ABI_VERSION {told('C ABI')}\n" in header
