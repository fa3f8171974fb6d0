"""DDP over ranks that die and come back: all end with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import importing, run_ranks

pytest.importorskip("torch")

# The whole set is `CHURN_STEPS=500`, five kills in about a minute.
STEPS = int(os.environ.get("CHURN_STEPS", "120"))
STEP_S = 0.06


def ends(output: str) -> list[dict[str, float]]:
    lines = [line.partition("END ")[2] for line in output.splitlines() if "END " in line]
    return [json.loads(line) for line in lines]


def train_and_lose(here: Path, kills: str) -> list[dict[str, float]]:
    script = here / "train.py"
    script.write_text(f"{importing('torch_churn_ranks')}; torch_churn_ranks.train()\n")
    run = [sys.executable, "-m", "holdfast.cli", "run", "-n", "4", "--tag-output", "--respawn"]
    done = subprocess.run(
        [*run, "train.py"],
        cwd=here,
        env={
            **os.environ,
            "STEPS": str(STEPS),
            "STEP_S": str(STEP_S),
            "KILLS": kills,
            "OMP_NUM_THREADS": "1",
            "HOLDFAST_TIMEOUT": "60",
        },
        capture_output=True,
        text=True,
        timeout=60 + 4 * STEPS * STEP_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ends(done.stdout)


def test_training_that_loses_ranks_ends_like_any_other(tmp_path):
    places = range(40, STEPS - 79, 100)
    kills = " ".join(f"{step}:{(2 + 2 * i) % 4}" for i, step in enumerate(places))
    (tmp_path / "disturbed").mkdir()
    disturbed = train_and_lose(tmp_path / "disturbed", kills)
    assert len(disturbed) == 4
    assert all(end == disturbed[0] for end in disturbed), disturbed
    assert disturbed[0]["came"] == len(places)
    assert disturbed[0]["lost"] > 0
    env = {"STEPS": str(STEPS), "KILLS": ""}
    outcomes = run_ranks("torch_churn_ranks", "train", 4, tmp_path, env=env)
    (undisturbed,) = ends(outcomes[0].output)
    print(kills, disturbed[0], undisturbed)
    assert disturbed[0]["loss"] == pytest.approx(undisturbed["loss"], rel=0.25)
