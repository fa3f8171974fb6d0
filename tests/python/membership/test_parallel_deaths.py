"""A rank of each way to train in parallel is killed: what the docs say happens.

The whole set is `tests/bench/kill_matrix.py`.
"""

from __future__ import annotations

import dataclasses

import pytest

import holdfast

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

from parallel_deaths import WAYS, Way, try_death

HOLES_ARE_ERRORS = any(f.name == "on_hole" for f in dataclasses.fields(holdfast.Options))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_survivors_of_a_killed_rank_see_what_the_docs_say(way: Way, tmp_path):
    if way.name in ("fsdp2", "hsdp") and not HOLES_ARE_ERRORS:
        pytest.skip("waits for the option on_hole: until then holes are zeros")
    trial = try_death(way, 1, 0, tmp_path)
    assert not trial.wrong, "\n".join([*trial.wrong, *(one.text for one in trial.death.seen)])
    assert trial.times_s
