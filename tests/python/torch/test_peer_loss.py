"""kill -9 of a rank, with on_peer_loss=raise: PeerLost, naming it, on all survivors at once."""

from __future__ import annotations

import time

import pytest
from ranks import finish, kill, segments_of, start_rank
from ucx_library import UCX

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")


@pytest.mark.parametrize("transport", ["shm", "tcp", UCX])
@pytest.mark.parametrize("count", [100, 4_000_000])
def test_survivors_learn_within_a_second(transport, count, tmp_path):
    env = {
        "HOLDFAST_TRANSPORTS": transport,
        "COUNT": str(count),
        "HOLDFAST_ON_PEER_LOSS": "raise",
    }
    processes = [
        start_rank("torch_ranks", "wait_for_lost_peer", r, 4, tmp_path, env) for r in range(4)
    ]
    assert processes[1].stdout is not None
    while "ready" not in (line := processes[1].stdout.readline()):
        assert line, "rank 1 ended before it was ready"
    # The others are in the middle of an op that waits for rank 1.
    time.sleep(0.3)
    killed = time.time()
    kill(processes[1])
    outcomes = finish(processes, 30)
    for outcome in (outcomes[0], outcomes[2], outcomes[3]):
        assert outcome.status == 0, outcome.output
        lost = [line for line in outcome.output.splitlines() if line.startswith("LOST")]
        assert float(lost[0].split()[1]) - killed < 1.0, outcome.output
    # What the killed rank left behind goes when the next node starts.
    import holdfast
    from holdfast import _core

    node = _core.Node.create(holdfast.Options().native())
    del node
    assert segments_of(outcomes) == set()


@pytest.mark.parametrize("transport", ["shm", "tcp", UCX])
def test_survivors_go_on(transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    processes = [
        start_rank("torch_ranks", "go_on_without_a_peer", r, 4, tmp_path, env) for r in range(4)
    ]
    for outcome in finish(processes, 60):
        assert outcome.rank == 1 or outcome.status == 0, outcome.output
