"""PyTorch's own distributed tests, at one world size; `make test-torch` runs all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
pytest.importorskip("expecttest", reason="waits for expecttest, which torch's test classes import")

PROGRAM = Path(__file__).parent.parent / "torch_suite" / "retarget.py"


def test_torchs_own_tests_pass_with_three_ranks(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--ranks", "3", "--log", str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [f"{row['test']}: {row['reason']}" for row in rows if row["outcome"] == "failed"]
    assert not failed, "\n".join(failed)
    assert done.returncode == 0, done.stderr
    passed = sum(row["outcome"] == "passed" for row in rows)
    assert passed >= 89, f"{passed} of {len(rows)} tests passed, the others were skipped"
