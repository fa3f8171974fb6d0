"""The pages of docs/reference are what the program says of itself."""

from __future__ import annotations

import ctypes
import difflib
import functools
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import _core

# Pages of Python have what is made for these, too.
torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("prometheus_client", reason="needs prometheus_client")

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
from reference import (  # noqa: E402
    c_header,
    cli,
    docstring_gaps,
    errors,
    markdown,
    metrics,
    pages,
    public_names,
    quorums,
)

FOLDER = ROOT / "docs/reference"
LIBRARY = Path(holdfast.__file__).parent / "libholdfast.so"


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_what_the_program_gives(name: str) -> None:
    if name == "codecs.md":
        try:
            holdfast.Codec("zstd")
        except holdfast.Unsupported:
            pytest.skip("this build has no libzstd")
    written = (FOLDER / name).read_text()
    given = pages.PAGES[name](written)
    if written != given:
        lines = difflib.unified_diff(
            written.splitlines(), given.splitlines(), "page", "program", n=0
        )
        pytest.fail(
            f"docs/reference/{name} is not what the program gives: run make reference\n"
            + "\n".join(list(lines)[:20])
        )


def test_a_page_is_the_same_once_optimisers_have_been_made() -> None:
    written = (FOLDER / "python/compress.md").read_text()
    made = holdfast.compress.Apollo.__new__(holdfast.compress.Apollo)
    torch.optim.Optimizer.__init__(made, [torch.nn.Parameter(torch.ones(2))], {"lr": 1.0})
    assert "step" in vars(holdfast.compress.Apollo)
    assert pages.PAGES["python/compress.md"](written) == written


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text()
    found = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\(([\w/-]+\.md)\)", index)) == found


def test_links_to_headings_lead_somewhere() -> None:
    lost = []
    for page in FOLDER.rglob("*.md"):
        for target in re.findall(r"\]\(([^)\s:]*#[^)\s]+|[^)\s:]+\.md)\)", page.read_text()):
            file, _, anchor = target.partition("#")
            other = (page.parent / file).resolve() if file else page
            text = other.read_text() if other.exists() else ""
            anchors = {markdown.anchor(title) for title in re.findall(r"(?m)^#+ (.+)$", text)}
            if not other.exists() or (anchor and anchor not in anchors):
                lost.append(f"{page.name}: {target}")
    assert not lost


def test_every_name_has_a_heading_of_its_own() -> None:
    for which in public_names.PAGES:
        titles = re.findall(r"(?m)^#+ (.+)$", (FOLDER / "python" / which.file).read_text())
        anchors = [markdown.anchor(title) for title in titles]
        assert len(set(anchors)) == len(anchors)


def test_every_exported_function_is_on_the_page_of_c() -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm here (Debian package binutils)")
    done = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True)
    exported = set(re.findall(r" T (hf_\w+)(?:@|$)", done.stdout, re.MULTILINE))
    page = set(re.findall(r"(?m)^### `(\w+)`$", (FOLDER / "c-api.md").read_text()))
    parts = [part for header in c_header.HEADERS for part in c_header.read(header).parts]
    assert exported == {part.name for part in parts if part.kind == "function"}
    assert {part.name for part in parts} == page
    assert len(exported) > 50


def test_every_declaration_in_c_has_a_comment() -> None:
    bare = []
    for header in c_header.HEADERS:
        parts = c_header.read(header).parts
        functions = {part.name for part in parts if part.kind == "function"}
        bare += [
            p.name for p in parts if not p.comment and (p.kind, p.name) not in macros(functions)
        ]
    assert not bare


def macros(functions: set[str]) -> set[tuple[str, str]]:
    """Macros that stand for a function: its comment is theirs."""
    return {("macro", name) for name in functions}


def test_errors_of_python_and_of_c_are_the_same() -> None:
    library = ctypes.CDLL(str(LIBRARY))
    library.hf_status_name.restype = ctypes.c_char_p
    named = {}
    for name, (code, _) in errors.codes().items():
        number = int(code.rpartition("(")[2].rstrip(")"))
        named[name.replace("SystemFailure", "System")] = library.hf_status_name(number).decode()
    assert named.pop("Ok") == "ok"
    assert all(name == said for name, said in named.items())
    assert library.hf_status_name(len(named) + 1) == b"unknown"
    own = {error.__name__ for error in errors.classes()} - {"HoldfastError"}
    assert own == set(errors.codes()) - {"Ok"}
    assert own <= set(holdfast.__all__)


def test_every_error_says_when_and_what_to_do() -> None:
    for error in errors.classes()[1:]:
        assert "\nWhen: " in inspect.cleandoc(error.__doc__ or "")
        assert "\nWhat to do: " in inspect.cleandoc(error.__doc__ or "")


def test_every_public_name_is_on_a_page() -> None:
    told = {name.name for which in public_names.PAGES for name in public_names.names(which)}
    told |= {error.__name__ for error in errors.classes()}
    for module in (holdfast, holdfast.comm, holdfast.compress):
        assert set(module.__all__) <= told


def test_docstrings_have_parameters_returns_and_raises() -> None:
    assert not list(docstring_gaps.all_gaps())


def test_every_command_is_on_the_page() -> None:
    page = (FOLDER / "cli.md").read_text()

    @functools.cache
    def help_of(*command: str) -> str:
        whole = [sys.executable, "-m", "holdfast.cli", *command, "--help"]
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout

    for name in cli.commands():
        assert f"\n## `holdfast {name}`\n" in page
        *of, last = name.split()
        assert re.search(rf"(?m)^ +{last}\b", help_of(*of))


def test_a_cost_formula_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from reference import algorithms

    assert algorithms.checked("ring", "all_reduce") is not None
    wrong = ("2 (n - 1)", "2 (n + 1) / n b", "(n - 1) / n b")
    monkeypatch.setitem(algorithms.COSTS, ("ring", "all_reduce"), wrong)
    with pytest.raises(ValueError, match="all_reduce, n = 2"):
        algorithms.checked("ring", "all_reduce")


def test_fates_are_those_of_the_guarantees() -> None:
    """The sentences of guarantees.md that stand beside its table."""
    assert _core.fate_of("all_to_all", 0, "away") == "hole"
    for collective in ("reduce", "gather"):
        held = [_core.fate_of(collective, 1, part) for part in ("nothing", "halves", "all", "away")]
        assert held == ["lost", "lost", "complete", "lost"]
    assert _core.fate_of("broadcast", 1, "halves") == "complete"
    assert {_core.fate_of("all_reduce", 0, part) for part in ("nothing", "away")} == {"without"}


def test_what_is_written_by_hand_stays() -> None:
    page = "before\n<!-- begin part: note -->\nold\n<!-- end part -->\nafter\n"
    new = markdown.put(page, "part", "new\n")
    assert new == "before\n<!-- begin part: note -->\n\nnew\n\n<!-- end part -->\nafter\n"
    assert markdown.put(new, "part", "new\n") == new
    with pytest.raises(ValueError, match="no generated part"):
        markdown.put(page, "other", "new")


def test_lines_of_prose_end_before_the_limit() -> None:
    text = markdown.item("word " * 60)
    assert max(map(len, text.splitlines())) <= markdown.WIDTH
    assert all(line.startswith("  ") for line in text.splitlines()[1:])


def test_the_ways_are_those_that_the_metrics_name() -> None:
    ways = {name for name, _ in _core.way_rows()} - {"staged"}
    named = set(re.findall(r"`(\w+)` \(", metrics.PATHS))
    assert named == ways | {"message"}


def test_a_rule_of_who_decides_holds_for_every_set_that_is_left() -> None:
    assert quorums.rule(True, False, "few") == "whoever is left"
    assert quorums.rule(False, False, "few") == "more than half"
    assert _core.may_decide(4, [0, 2], False, False, "first")
    assert not _core.may_decide(4, [1, 2], False, False, "first")
