"""PyTorch's own distributed tests, those of every family; `make test-torch` runs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
pytest.importorskip("expecttest", reason="waits for expecttest, which torch's test classes import")

SUITE = Path(__file__).parents[2] / "torch_suite"
# One test or two of every family that three ranks pass: not each operation, dtype and group again.
FAMILIES = SUITE / "families.txt"

# What the suite skips with three ranks: groups of groups, and groups of some of the ranks.
MORE = {
    4: ("test_gather_object", "test_gather_object_subgroup", "test_new_subgroups_with_group_param"),
    8: ("test_all_gather_group", "test_all_reduce_group_sum", "test_barrier_group"),
}


def run_suite(ranks: int, log: Path, only: str) -> set[str]:
    """Run some tests of the suite; require that all of them pass, and return which they were."""
    done = subprocess.run(
        [
            sys.executable,
            str(SUITE / "retarget.py"),
            "--ranks",
            str(ranks),
            "--log",
            str(log),
            "--only",
            only,
        ],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [f"{row['test']}: {row['reason']}" for row in rows if row["outcome"] != "passed"]
    assert not wrong, "\n".join(wrong)
    assert done.returncode == 0, done.stderr
    return {row["test"] for row in rows}


def test_torchs_own_tests_pass_with_three_ranks(tmp_path):
    ran = run_suite(3, tmp_path / "log", str(FAMILIES))
    assert ran == set(FAMILIES.read_text().split())


@pytest.mark.parametrize("ranks", MORE)
def test_torchs_own_tests_of_more_ranks_pass(ranks, tmp_path):
    ran = run_suite(ranks, tmp_path / "log", ",".join(MORE[ranks]))
    assert ran == set(MORE[ranks])
