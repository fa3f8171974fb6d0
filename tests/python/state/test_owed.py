"""Compressed optimisers and ZeRO go on: the same bits in as many ranks, else the same debts."""

from __future__ import annotations

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from owed_ranks import KINDS  # noqa: E402
from ranks import run_ranks  # noqa: E402


def found_by(function: str, size: int, here, **env: str) -> list[dict]:
    (here / "torch").unlink(missing_ok=True)
    outcomes = run_ranks("owed_ranks", function, size, here, env=env)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    return [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]


def owed(ranks: list[dict], kind: str) -> dict[str, list[float]]:
    """The sum over all ranks, by residual."""
    found: dict[str, list[float]] = {}
    for rank in ranks:
        for name, sums in rank[kind]["owed"].items():
            before = found.setdefault(name, [0.0] * len(sums))
            found[name] = [a + b for a, b in zip(before, sums, strict=True)]
    return found


def test_they_go_on_in_any_number_of_ranks(tmp_path):
    saved = found_by("save", 4, tmp_path)
    assert len(saved) == 4
    for size in (4, 1, 3, 5):
        ranks = found_by("restore", size, tmp_path, SAVED="4")
        for kind in KINDS:
            assert {rank[kind]["bits"] for rank in ranks} == {saved[0][kind]["bits"]}
            assert len({rank[kind]["end"] for rank in ranks}) == 1
            if size == 4:
                assert [rank[kind] for rank in ranks] == [rank[kind] for rank in saved]
            kept = {name: value for rank in saved for name, value in rank[kind]["kept"].items()}
            theirs = {name: value for rank in ranks for name, value in rank[kind]["kept"].items()}
            assert kept == theirs
            before, after = owed(saved, kind), owed(ranks, kind)
            assert bool(before) == (kind != "zero")
            assert before.keys() == after.keys()
            for name, sums in before.items():
                for had, has in zip(sums, after[name], strict=True):
                    assert math.isclose(had, has, rel_tol=1e-4, abs_tol=1e-4), (kind, name, size)
