"""A slow member has less to do: speeds by clocks that the tests turn."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from methods import H, bits, local_step, model  # noqa: E402
from thread_exchange import Alone, ThreadExchange, run  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import PeerLost  # noqa: E402
from holdfast.ft.outer.pace import Pace  # noqa: E402

# Seconds that a sample takes, by rank.
COSTS = (1.0, 1.0, 4.0)
PACED = {
    "local sgd": lambda m, i, g, **b: ft.LocalSGD(m, i, g, inner_steps=H, pace=True, **b),
    "diloco": lambda m, i, g, **b: ft.DiLoCo(m, i, g, inner_steps=4 * H, pace=True, **b),
    "sparse": lambda m, i, g, **b: ft.SparseLoCo(m, i, g, inner_steps=H, pace=True, **b),
    "eager": lambda m, i, g, **b: ft.AsyncDiLoCo(m, i, g, inner_steps=H, pace=True, **b),
    "streaming": lambda m, i, g, **b: ft.StreamingDiLoCo(
        m, i, g, inner_steps=2 * H, fragments=3, delay=5, pace=True, **b
    ),
    "co2": lambda m, i, g, **b: ft.CO2(
        m, i, g, inner_steps=2 * H, fragments=2, delay=4, pace=True, **b
    ),
}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Turned:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def paced(kind: str, exchange, net, cost: float, rounds: int, **more: int):
    """Some rounds; local steps and seconds of computation of each, and what is shared after it."""
    trainer = PACED[kind](net, torch.optim.Adam(net.parameters()), exchange, **more)
    clock = trainer._pace.clock = Turned()
    trainer._pace.goes_on()
    counts, seconds, trail = [], [], []
    for turn in range(rounds):
        count, before = 0, clock.now
        while trainer.steps < (turn + 1) * trainer.rounds.inner_steps:
            clock.now += cost * trainer.next_batch(16)
            local_step(trainer, net, exchange.rank, count)
            if exchange.rank == 1:
                # Who waits for what is under way knows no more than the others.
                trainer.state_dict()
            count += 1
        counts.append(count)
        seconds.append(clock.now - before)
        trail.append(bits(trainer))
    assert trainer.at_boundary
    trainer.finish()
    return counts, seconds, trail, trainer


@pytest.mark.parametrize("kind", PACED)
def test_a_slow_member_does_fewer_steps_and_counts_for_less(kind):
    nets = [model() for _ in COSTS]

    def program(exchange: ThreadExchange):
        net = nets[exchange.rank]
        return paced(kind, exchange, net, COSTS[exchange.rank], 8)

    ranks = run(3, program)
    assert all(rank[2] == ranks[0][2] for rank in ranks)
    steps = ranks[0][3].rounds.inner_steps
    assert ranks[0][0] == ranks[1][0] == [steps] * 8
    assert ranks[2][0][0] == steps
    # As soon as a round's speeds have been told.
    assert ranks[2][0][3:] == [max(1, round(steps / 4))] * 5
    weights = ranks[0][3].last.weights
    assert weights[0] == weights[1]
    assert weights[2] < 0.5 * weights[0]


@pytest.mark.parametrize("kind", PACED)
def test_a_global_batch_is_dealt_by_speed(kind):
    nets = [model() for _ in COSTS]
    batch = 9 * 64

    def program(exchange: ThreadExchange):
        net = nets[exchange.rank]
        return paced(kind, exchange, net, COSTS[exchange.rank], 8, global_batch=batch)

    ranks = run(3, program)
    assert all(rank[2] == ranks[0][2] for rank in ranks)
    # All compute about as long as each other, as soon as speeds have been told.
    for turn in range(3, 8):
        times = [rank[1][turn] for rank in ranks]
        assert max(times) <= 1.1 * min(times), times
        samples = sum(time / cost for time, cost in zip(times, COSTS, strict=True))
        assert samples == batch


def test_who_is_not_known_yet_counts_for_nothing_and_who_has_come_in_is_forgotten():
    pace = Pace(True, torch.device("cpu"))
    pace._heard = {0: 1.0, 1: 4.0, 2: 2.0}
    assert pace.speeds((0, 1)) == [1, 1]
    assert pace.part(1, (0, 1)) == 1
    pace.adopt()
    assert pace.speeds((0, 1, 2)) == [1, 0.25, 0.5]
    assert [pace.part(rank, (0, 1, 2, 3)) for rank in range(4)] == [1, 0.25, 0.5, 1]
    # The fastest has gone.
    assert pace.part(1, (1, 2)) == 0.5
    # Another process has the place of one who was known.
    pace.forget((1,))
    assert pace.speeds((0, 1, 2)) == [1, 1, 1]
    assert pace.part(2, (0, 1, 2)) == 0.5


class _Fails:
    def wait(self) -> None:
        raise PeerLost("rank 1 was lost", ranks=(1,))


def test_an_exchange_of_speeds_that_fails_leaves_them_as_they_were():
    pace = Pace(True, torch.device("cpu"))
    pace._costs = {0: 3.0}
    pace._told = (_Fails(), torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1))
    pace.end()
    pace.adopt()
    assert pace._costs == {0: 3.0}


def test_of_one_member_it_changes_nothing():
    net, other = model(), model()
    trail = paced("diloco", Alone(), net, 3.0, 3)[2]
    trainer = ft.DiLoCo(other, torch.optim.Adam(other.parameters()), Alone(), inner_steps=4 * H)
    found = []
    for step in range(3 * 4 * H):
        local_step(trainer, other, 0, step % (4 * H))
        if trainer.at_boundary:
            found.append(bits(trainer))
    assert found == trail
