"""Images of sharded models: saved in one layout, restored in another, bit by bit."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: a state is its tensors")

from ranks import run_ranks  # noqa: E402

SAVED = [("fsdp", 4), ("hsdp", 4), ("fsdp_tp", 4), ("ddp", 3)]
RESTORED = [("fsdp", 1), ("ddp", 2), ("fsdp", 3), ("fsdp", 5), ("hsdp", 4), ("fsdp_tp", 4)]


def found_by(function: str, size: int, here, **env: str) -> list[dict]:
    (here / "torch").unlink(missing_ok=True)
    outcomes = run_ranks("image_ranks", function, size, here, env=env)
    lines = [line for one in outcomes for line in one.output.splitlines()]
    found = [json.loads(line[len("FOUND ") :]) for line in lines if line.startswith("FOUND ")]
    assert len(found) == size
    return found


@pytest.mark.parametrize(("layout", "size"), SAVED)
def test_every_layout_is_restored_in_every_other_with_the_same_bits(layout, size, tmp_path):
    saved = found_by("save", size, tmp_path, LAYOUT=layout)
    sums = saved[0]["sums"]
    assert len(sums) > 30
    assert all(one["sums"] == sums for one in saved)
    for number, (other, ranks) in enumerate(RESTORED):
        env = {"LAYOUT": other, "SAVED": str(size), "STEPS": str(number % 2)}
        restored = found_by("restore", ranks, tmp_path, **env)
        for rank, one in enumerate(restored):
            assert one["sums"] == sums, (other, ranks)
            assert one["next"] == saved[rank % size]["next"]


def test_replicas_save_each_tensor_once_between_them(tmp_path):
    one = found_by("save", 1, tmp_path, LAYOUT="ddp")
    several = found_by("save", 3, tmp_path, LAYOUT="ddp")
    own = 16 << 10
    assert sum(rank["bytes"] for rank in several) <= one[0]["bytes"] + 3 * own
    # The large one is shared between them, so that nobody has most of it.
    assert max(rank["bytes"] for rank in several) <= one[0]["bytes"] / 2 + own
