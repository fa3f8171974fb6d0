"""Rules of churn, each with real processes: who comes, goes, dies or is away in mid-round."""

from __future__ import annotations

import json
import signal
import time

import pytest

pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from coordinators import Coordinator
from ranks import finish, start_rank

FAST = {"HOLDFAST_TIMEOUT": "30", "HOLDFAST_HEARTBEAT": "0.05", "HOLDFAST_SILENCE": "2"}


@pytest.fixture(autouse=True)
def coordinator_is_fast(monkeypatch):
    for name in ("HOLDFAST_HEARTBEAT", "HOLDFAST_SILENCE"):
        monkeypatch.setenv(name, FAST[name])


KINDS = ["diloco", "streaming, 3, 3", "eager, 1, 6", "co2, 3 fragments, delay 4", "sparse"]


class World:
    """Peers under a coordinator, and what they have said."""

    def __init__(self, tmp_path, kind: str, wanted: str, minimum: int = 2, **more: str) -> None:
        self.here = tmp_path
        self.coordinator = Coordinator(tmp_path)
        self.env = {
            **FAST,
            "METHOD": kind,
            "URL": f"holdfast://{self.coordinator.address}",
            "MIN": str(minimum),
            "WANTED": wanted,
            **more,
        }
        self.peers = []
        self.heard: dict[int, list[str]] = {}
        self.said: list[list[str]] = []

    def start(self, *roles: str) -> None:
        for role in roles:
            env = {**self.env, "ROLE": role}
            number = len(self.peers)
            self.peers.append(start_rank("round_churn_ranks", "live", number, 1, self.here, env))

    def hear(self, peer: int, word: str) -> str:
        """Read what a peer says up to a line that begins so."""
        stream = self.peers[peer].stdout
        lines = self.heard.setdefault(peer, [])
        while True:
            line = stream.readline()
            lines.append(line)
            assert line, "".join(lines)
            if line.startswith(word):
                return line

    def end(self) -> tuple[list[dict], list[list[str]]]:
        """Return what those who have seen all say at the end, and everybody's rounds."""
        outcomes = finish(self.peers, 40)
        ends, trails = [], []
        for outcome in outcomes:
            said = "".join(self.heard.get(outcome.rank, [])) + outcome.output
            assert outcome.status in (0, -signal.SIGKILL), said
            assert "did not end within" not in said, said
            lines = said.splitlines()
            self.said.append(lines)
            trails.append([line for line in lines if line.startswith("ROUND ")])
            ends += [json.loads(line.removeprefix("END ")) for line in lines if line[:4] == "END "]
        return ends, trails

    def clear(self) -> None:
        """Leave no process, whatever a test has found."""
        for process in (*self.peers, self.coordinator.process):
            if process.poll() is None:
                process.kill()
                process.wait(10)


@pytest.fixture
def world_of(tmp_path):
    made: list[World] = []

    def make(kind: str, wanted: str, minimum: int = 2, **more: str) -> World:
        made.append(World(tmp_path, kind, wanted, minimum, **more))
        return made[-1]

    yield make
    for world in made:
        world.clear()


def agree(ends: list[dict], trails: list[list[str]], count: int, kind: str) -> None:
    """All that is told of a round is the same at all, and all who end do so with the same bits."""
    assert len(ends) == count
    assert all(end == ends[0] for end in ends), ends
    assert ends[0]["bits"] == ends[0]["model"]
    whole = max(trails, key=len)
    steps = [int(line.split()[1]) for line in whole]
    assert steps == list(range(steps[0], steps[-1] + 1, 6))
    for trail in trails:
        assert set(trail) <= set(whole)
        assert trail
    if kind.startswith("batched "):
        # In rounds whose boundary has told who is there: not in that of a loss.
        sums = [float(line.split()[3]) for line in whole[2:]]
        assert len({*sums} - {0.0}) <= 3, sums
        assert max(sums, key=sums.count) == max(sums)


BATCH = ["batched diloco", "batched streaming", "batched eager", "batched eager, pace"]


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        *((kind, "dies") for kind in (*KINDS, *BATCH)),
        *((kind, "leaves") for kind in (*KINDS[:3], *BATCH[:2])),
    ],
)
def test_a_member_goes_with_a_fragment_in_flight_and_nobody_loses_a_step(kind, role, world_of):
    world = world_of(kind, "fewer", 3)
    world.start("stays", "stays", role)
    ends, trails = world.end()
    agree(ends, trails, 2, kind)


@pytest.mark.parametrize("kind", ["streaming, 3, 3", "eager, 1, 6", "sparse", *BATCH[:2]])
def test_a_loss_that_is_an_error_leaves_all_at_one_row_and_they_go_on(kind, world_of):
    world = world_of(kind, "fewer", 3, HOLDFAST_ON_PEER_LOSS="raise")
    world.start("stays", "stays", "dies")
    ends, trails = world.end()
    agree(ends, trails, 2, "raise")
    lost = [[line for line in said if line.startswith("LOST")] for said in world.said]
    # Where what the dead had sent was enough, its loss is found by the boundary, which takes it.
    assert len(lost[0]) <= 1
    assert lost[0] == lost[1]


@pytest.mark.parametrize("kind", [*KINDS, *BATCH])
def test_who_comes_in_in_mid_round_takes_over_what_is_shared_and_in_flight(kind, world_of):
    world = world_of(kind, "joined")
    world.start("stays", "stays")
    world.hear(0, "READY")
    world.start("comes")
    ends, trails = world.end()
    agree(ends, trails, 3, kind)
    assert len(ends[0]["members"]) == 3


@pytest.mark.parametrize("kind", ["diloco", "donated diloco", "donated eager"])
def test_a_newcomers_inner_optimiser_is_fresh_or_a_donors(kind, world_of):
    world = world_of(kind, "joined")
    world.start("stays", "stays")
    world.hear(0, "READY")
    world.start("comes")
    ends, trails = world.end()
    agree(ends, trails, 3, kind)
    told = [next(line for line in said if line.startswith("INNER")) for said in world.said]
    assert int(told[0].split()[1]) == int(told[1].split()[1]) > 0
    assert told[0] != told[1]
    if kind == "diloco":
        assert told[2].split()[1] == "0"
    else:
        assert told[2] in told[:2]


@pytest.mark.parametrize(
    "kind", ["diloco", "streaming, 3, 3", "batched diloco", "batched eager, pace"]
)
def test_a_member_that_was_out_for_long_is_back_as_a_newcomer(kind, world_of):
    world = world_of(kind, "fewer joined", 3)
    world.start("stays", "stays", "flaps")
    world.hear(2, "STOPS")
    world.hear(0, "holdfast: view 2: lost rank")
    world.peers[2].send_signal(signal.SIGCONT)
    world.hear(2, "OUT")
    world.start("comes")
    ends, trails = world.end()
    agree(ends, trails, 3, kind)
    assert len(ends[0]["members"]) == 3


@pytest.mark.parametrize("kind", ["diloco", "streaming, 3, 3", "eager, 1, 6"])
def test_a_member_that_was_out_for_a_moment_is_waited_for_and_nothing_is_lost(kind, world_of):
    world = world_of(kind, "joined", 3)
    world.start("stays", "stays", "flaps")
    world.hear(2, "STOPS")
    time.sleep(0.5)
    world.peers[2].send_signal(signal.SIGCONT)
    world.hear(2, "ROUND")
    # Everybody has gone on together; somebody comes in, so that they end.
    world.start("comes")
    ends, trails = world.end()
    agree(ends, trails, 4, kind)
    assert all("lost rank" not in line for line in world.heard[2])


@pytest.mark.parametrize("kind", ["diloco", "eager, 1, 6"])
def test_rounds_go_on_while_the_coordinator_is_away_and_newcomers_wait_for_it(kind, world_of):
    world = world_of(kind, "joined")
    world.start("stays", "stays")
    world.hear(0, "READY")
    world.coordinator.kill()
    world.start("comes")
    for _ in range(12):
        world.hear(0, "ROUND")
    world.coordinator.start()
    ends, trails = world.end()
    agree(ends, trails, 3, kind)


def test_a_loss_while_the_coordinator_is_away_waits_for_it_and_costs_no_step(world_of):
    world = world_of("diloco", "fewer", 3)
    world.start("stays", "stays", "dies")
    world.hear(0, "ROUND")
    world.coordinator.kill()
    assert world.peers[2].wait(60) == -signal.SIGKILL
    time.sleep(0.5)
    world.coordinator.start()
    ends, trails = world.end()
    agree(ends, trails, 2, "diloco")
