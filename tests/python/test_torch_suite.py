"""PyTorch's own distributed tests, those of every family; `make test-torch` runs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
pytest.importorskip("expecttest", reason="waits for expecttest, which torch's test classes import")

PROGRAM = Path(__file__).parent.parent / "torch_suite" / "retarget.py"


# What the suite skips with three ranks: groups of groups, and groups of some of the ranks.
MORE = {
    4: ("test_gather_object", "test_gather_object_subgroup", "test_new_subgroups_with_group_param"),
    8: ("test_all_gather_group", "test_all_reduce_group_sum", "test_barrier_group"),
}


def run_suite(ranks: int, log: Path, names: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Run the suite, or some of its tests; require that none fails."""
    only = ["--only", ",".join(names)] if names else []
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--ranks", str(ranks), "--log", str(log), *only],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [f"{row['test']}: {row['reason']}" for row in rows if row["outcome"] == "failed"]
    assert not failed, "\n".join(failed)
    assert done.returncode == 0, done.stderr
    return rows


def test_torchs_own_tests_pass_with_three_ranks(tmp_path):
    rows = run_suite(3, tmp_path / "log")
    passed = sum(row["outcome"] == "passed" for row in rows)
    assert passed >= 89, f"{passed} of {len(rows)} tests passed, the others were skipped"


@pytest.mark.parametrize("ranks", MORE)
def test_torchs_own_tests_of_more_ranks_pass(ranks, tmp_path):
    rows = run_suite(ranks, tmp_path / "log", MORE[ranks])
    assert [row["outcome"] for row in rows] == ["passed"] * len(MORE[ranks]), rows
