"""torch's reconfigure seam: members by handles, no store that outlives them."""

from __future__ import annotations

import signal

import pytest
from ranks import finish, start_rank

dist = pytest.importorskip("torch.distributed", reason="waits for torch")


@pytest.mark.skipif(
    not hasattr(dist, "_reconfigure"), reason="waits for torch 2.14, which has the seam"
)
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_group_gets_other_members_by_their_handles(transport, tmp_path):
    env = {"HOLDFAST_TRANSPORTS": transport}
    processes = [start_rank("reconfigure_ranks", "peer", r, 4, tmp_path, env) for r in range(4)]
    outcomes = finish(processes, 120)
    assert outcomes[1].status == -signal.SIGKILL, outcomes[1].output
    for outcome in outcomes:
        assert outcome.rank == 1 or outcome.status == 0, outcome.output
