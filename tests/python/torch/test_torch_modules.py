"""Which native module serves a torch, and what a user reads whose torch none serves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import _info, _torch_modules
from holdfast._torch_modules import BUILD_FROM_SOURCE, minor_of, minors, refusal

HERE = ((2, 11), (2, 12), (2, 13))


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        ("2.13.0", (2, 13)),
        ("2.13.0+cpu", (2, 13)),
        ("2.12.1+cu130", (2, 12)),
        ("2.11.0a0+git1234567", (2, 11)),
        ("2.13.0.dev20260301+cpu", (2, 13)),
    ],
)
def test_a_torch_of_any_build_is_served_by_the_module_of_its_minor_version(version, minor):
    assert minor_of(version) == minor
    assert refusal(version, HERE) is None


def test_a_newer_torch_is_told_what_fits_what_it_is_and_the_line_that_builds():
    told = refusal("2.16.0+cpu", HERE)
    assert "fits torch 2.11, 2.12, 2.13, and this is torch 2.16.0+cpu" in told
    assert told.endswith(f"`{BUILD_FROM_SOURCE}`")


def test_a_torch_that_no_build_fits_is_told_the_oldest_one_and_no_line_that_builds():
    told = refusal("2.10.1", HERE)
    assert "this is torch 2.10.1; Holdfast needs torch 2.11 or newer" in told
    assert "pip install" not in told


def test_a_build_without_a_module_says_so():
    assert "fits no torch at all, and this is torch 2.13.0" in refusal("2.13.0", ())


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules more, of Python, one of which does not load."""
    (tmp_path / "_c10d_2_98.py").write_text("built_for_torch = '2.98'\n")
    (tmp_path / "_c10d_2_99.py").write_text("raise ImportError('undefined symbol: _Z5torch')\n")
    (tmp_path / "_c10d_old.py").write_text("raise AssertionError('not a minor version')\n")
    monkeypatch.setattr(holdfast, "__path__", [*holdfast.__path__, str(tmp_path)])
    yield
    for name in ("_c10d_2_98", "_c10d_2_99"):
        sys.modules.pop(f"holdfast.{name}", None)
        vars(holdfast).pop(name, None)


def test_the_module_of_the_minor_version_is_loaded_and_no_other(modules):
    before = {name for name in sys.modules if name.startswith("holdfast._c10d")}
    assert minors()[-2:] == ((2, 98), (2, 99))
    assert _torch_modules.load("2.98.3+cpu").built_for_torch == "2.98"
    after = {name for name in sys.modules if name.startswith("holdfast._c10d")}
    assert after - before == {"holdfast._c10d_2_98"}


def test_a_module_that_does_not_load_says_why_and_the_line_that_builds(modules):
    with pytest.raises(ImportError, match="undefined symbol: _Z5torch") as caught:
        _torch_modules.load("2.99.0")
    assert "module for torch 2.99 does not load beside torch 2.99.0" in str(caught.value)
    assert f"`{BUILD_FROM_SOURCE}`" in str(caught.value)


def test_the_torch_that_is_here_has_its_module():
    torch = pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
    from holdfast.torch import native

    assert native().built_for_torch == ".".join(torch.__version__.split(".")[:2])
    assert minor_of(torch.__version__) in minors()


def test_info_names_the_modules_that_are_here_and_the_one_that_was_chosen(capsys):
    torch = pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
    assert _info.show(as_json=False) == 0
    chosen = _torch_modules.text_of(minor_of(torch.__version__))
    here = ", ".join(_torch_modules.text_of(minor) for minor in minors())
    told = f"(torch {torch.__version__}, by the module for {chosen}; here are {here})"
    assert told in capsys.readouterr().out


def test_a_torch_without_a_module_fails_where_the_group_is_made(monkeypatch):
    torch = pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
    from holdfast.torch import native

    monkeypatch.setattr(torch, "__version__", "2.97.0")
    with pytest.raises(ImportError, match=r"and this is torch 2\.97\.0"):
        native.__wrapped__()


def test_all_who_name_the_oldest_torch_agree():
    root = Path(__file__).resolve().parents[3]
    oldest = f"{_torch_modules.OLDEST_TORCH[0]}.{_torch_modules.OLDEST_TORCH[1]}"
    rows = (root / ".ci/torches.txt").read_text().splitlines()
    versions = [row.split()[0] for row in rows if not row.startswith("#")]
    minors_built = [minor_of(version) for version in versions]
    assert minors_built == sorted(set(minors_built))
    assert minors_built[0] == _torch_modules.OLDEST_TORCH
    assert f'torch = ["torch>={oldest}"]' in (root / "pyproject.toml").read_text()
    cmake = (root / "bindings/torch/CMakeLists.txt").read_text()
    assert re.findall(r"VERSION_LESS ([\d.]+)", cmake) == [oldest]
