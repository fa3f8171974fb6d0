"""DDP, FSDP2 and DTensor: the same program on Holdfast and on gloo gives the same numbers."""

from __future__ import annotations

import json

import pytest
from ranks import END_WHOLE, run_ranks

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


def losses(program: str, backend: str, path) -> list[list[float]]:
    env = {"BACKEND": backend, **(END_WHOLE if backend == "holdfast" else {})}
    outcomes = run_ranks("training_ranks", program, 3, path, env=env)
    found = []
    for outcome in outcomes:
        line = next(x for x in outcome.output.splitlines() if x.startswith("LOSSES"))
        found.append(json.loads(line.removeprefix("LOSSES")))
    return found


@pytest.mark.parametrize("program", ["ddp", "fsdp", "dtensor"])
def test_same_numbers_as_gloo(program, tmp_path):
    ours = losses(program, "holdfast", tmp_path / "holdfast")
    theirs = losses(program, "gloo", tmp_path / "gloo")
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-4, abs=1e-5)
