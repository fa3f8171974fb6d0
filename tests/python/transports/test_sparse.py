"""Option mesh: in a sparse world connections are made where ops need them, and losses are seen."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from ranks import finish, start_rank

from holdfast import ConfigError, Options

SIZE = 9


@pytest.mark.parametrize("transports", ["tcp", "shm,tcp"])
@pytest.mark.parametrize("mesh", ["sparse", "full"])
def test_ranks_are_connected_where_an_op_needs_it(
    transports: str, mesh: str, tmp_path: Path
) -> None:
    # The coordinating rank, one that is nobody's neighbour of it, and the next to coordinate.
    lost = [0, 5, 1]
    env = {
        "HOLDFAST_MESH": mesh,
        "HOLDFAST_TRANSPORTS": transports,
        "LOST": ",".join(map(str, lost)),
    }
    started = [
        start_rank("sparse_ranks", "call_and_lose", rank, SIZE, tmp_path, env)
        for rank in range(SIZE)
    ]
    outcomes = finish(started, 30)
    for outcome in outcomes:
        expected = -signal.SIGKILL if outcome.rank in lost else 0
        assert outcome.status == expected, outcome.output
    live = [rank for rank in range(SIZE) if rank not in lost]
    ranks = [json.loads((tmp_path / f"told{rank}.json").read_text()) for rank in live]
    whole = SIZE * (SIZE + 1) / 2
    sums = [whole, whole - 1, whole - 1 - 6, whole - 1 - 6 - 2]
    for told in ranks:
        assert told["sums"] == sums
        assert told["live"] == live
    # Of eight others four are neighbours, and the first rank; some may have called already.
    grown = sum(told["sockets"][2] - told["sockets"][0] for told in ranks)
    assert (grown > len(live)) == (mesh == "sparse")


def test_another_mesh_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'option mesh = "ring"; accepted: .*sparse'):
        Options(mesh="ring")
