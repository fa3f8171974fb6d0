"""The Python tests' two processes (.ci/pytest.sh): what each has, and what becomes of a failure."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON_TESTS = ROOT / "tests/python"

# Stands for pytest. It ends when the other has begun, too, unless it is to be alone.
PRETENDED = """#!/usr/bin/env bash
case " $* " in *" --ignore="*) name=others other=timed ;; *) name=timed other=others ;; esac
printf '%s\\n' "$@" > "$HERE/$name.arguments"
pwd > "$HERE/$name.folder"
if [ -n "$ALONE" ]; then
  echo "$name" >> "$HERE/order"
else
  for _ in $(seq 600); do [ ! -e "$HERE/$other.arguments" ] || break; sleep 0.05; done
  [ -e "$HERE/$other.arguments" ] || exit 9
fi
if [ "$name" = "$FAILS" ]; then
  echo "FAILED some_test.py::test_of_$name"
  echo "==== 2 failed, 30 passed, 4 skipped in 7.25s ===="
  exit 1
fi
echo "==== 500 passed, 1 skipped in 61.50s (0:01:01) ===="
echo "sys:1: ResourceWarning: unclosed <socket.socket fd=18>"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the scripts, as the repository's root is one."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "pytest").write_text(PRETENDED)
    (tmp_path / "pytest").chmod(0o755)
    return tmp_path


def call(place: Path, *command: str, fails: str = "", alone: str = "") -> tuple[int, str]:
    env = {"HERE": str(place), "FAILS": fails, "ALONE": alone, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def run(place: Path, jobs: int, **more: str) -> tuple[int, str]:
    return call(place, ".ci/pytest.sh", str(place / "pytest"), str(jobs), **more)


def timed() -> list[Path]:
    found = re.search(r'timed="([^"]+)"', (ROOT / ".ci/pytest.sh").read_text())
    assert found is not None
    return [PYTHON_TESTS / path for path in found[1].split()]


def test_one_process_has_what_the_other_has_not(place: Path) -> None:
    status, said = run(place, 2)
    assert status == 0, said
    argued = {
        name: set((place / f"{name}.arguments").read_text().splitlines())
        for name in ("timed", "others")
    }
    there = {str(place / path.relative_to(ROOT)) for path in timed()}
    assert there <= argued["timed"]
    assert {word for word in argued["others"] if word.startswith("--ignore=")} == {
        f"--ignore={path}" for path in there
    }
    assert str(place / "tests") in argued["others"]
    # What each has noted for --last-failed is its own.
    caches = [{w for w in words if w.startswith("cache_dir=")} for words in argued.values()]
    assert not caches[0] & caches[1]


def test_one_core_runs_one_after_the_other(place: Path) -> None:
    status, said = run(place, 1, alone="1")
    assert status == 0, said
    assert (place / "order").read_text().split() == ["timed", "others"]


@pytest.mark.parametrize("name", ["timed", "others"])
def test_a_failure_of_either_fails_and_both_come_to_their_ends(name: str, place: Path) -> None:
    status, said = run(place, 2, fails=name)
    assert status != 0
    # At the end stands the log of what failed, and one line of the other.
    end = said[said.index("build/logs/pytest-timed.log:") :]
    assert f"\nFAILED some_test.py::test_of_{name}\n" in end
    assert end.count("500 passed") == 1
    assert "ResourceWarning" not in end
    status, said = call(place, ".ci/summary.sh")
    assert status == 0, said
    (line,) = said.splitlines()
    assert line.startswith("pytest ")
    for count in ("2 failed", "530 passed", "5 skipped", "7.25s", "61.50s"):
        assert count in line, line


def test_a_process_that_came_to_no_end_is_told(place: Path) -> None:
    logs = place / "build/logs"
    logs.mkdir(parents=True)
    (logs / "pytest-others.log").write_text("tests/python/c/test_c_abi.py ..Killed\n")
    (logs / "pytest-timed.log").write_text("==== 30 passed in 7.25s ====\n")
    assert call(place, ".ci/summary.sh") == (0, "pytest   1 unfinished, 30 passed, in 7.25s\n")


def test_tests_that_shape_networks_never_meet() -> None:
    """Their rates and delays hold where little else is to be done."""
    there = timed()
    assert [str(path) for path in there if not path.exists()] == []
    shapes = re.compile(r"(?m)^from emulated_(?:network|path|sites|nats) |\bnetns\b")
    strays = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(PYTHON_TESTS.glob("*/test_*.py"))
        if shapes.search(path.read_text()) and not any(path.is_relative_to(one) for one in there)
    ]
    assert not strays, "\n".join(strays)
