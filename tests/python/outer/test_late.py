"""A member that is late is stood in for: the rule, and every method, with ranks as threads."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from late_methods import (  # noqa: E402
    GRACED,
    LIMIT_S,
    LONG_S,
    SHORT_S,
    recorded,
    stand_still,
    train,
)
from methods import H, batch, bits, local_step, model  # noqa: E402
from thread_exchange import Alone, ThreadExchange, run  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import ConfigError, PeerLost  # noqa: E402
from holdfast.ft.outer.late import Carried, Meeting, discount  # noqa: E402
from holdfast.ft.outer.pace import Pace  # noqa: E402
from holdfast.ft.outer.site import refuse_in_site  # noqa: E402
from holdfast.ft.outer.stand_in import StandIn  # noqa: E402
from holdfast.ft.outer.turn import Turn  # noqa: E402

LATE = 2


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ---- the rule ------------------------------------------------------------------------------------


class Turned:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class _Member:
    def _stand_in_now(self) -> None:
        pass


def test_a_member_is_late_when_it_computes_for_longer_than_the_fastest_and_the_grace():
    clock = Turned()
    stand_in = StandIn(2.0, clock)
    assert stand_in.left_s is None
    with stand_in.kept_away():
        # Nothing has been told yet.
        stand_in.expect(None, _Member())
        assert stand_in.left_s is None
        stand_in.expect(10.0, _Member())
    clock.now = 11.0
    assert (stand_in.left_s, stand_in.late_s) == (1.0, 1.0)
    # What it waits for is not computation, nor what it does in a pause.
    with stand_in.passing(ends_round=False):
        clock.now = 14.0
    assert stand_in.left_s == 1.0
    with stand_in.kept_away():
        stand_in.pause()
        assert stand_in.left_s is None
    clock.now = 100.0
    with stand_in.kept_away() as waited:
        assert waited == 86.0
        stand_in.expect(10.0, _Member())
    assert stand_in.left_s == 1.0
    with stand_in.passing(ends_round=True):
        clock.now = 102.0
    assert stand_in.left_s == 12.0
    # Who is late already has no second grace; who is back has.
    stand_in.has_acted = True
    assert stand_in.left_s == 10.0
    assert stand_in.comes_back() is None
    assert stand_in.left_s == 12.0
    stand_in.close()


def test_the_fastest_member_says_when_a_row_is_due():
    def turn(batch, is_on, costs):
        pace = Pace(is_on, torch.device("cpu"), is_told=True)
        pace._costs = costs
        return Turn(10, batch, lambda: tuple(range(4)), 0, pace)

    assert turn(None, False, {}).due_s(10) is None
    assert turn(None, False, {0: 4.0, 2: 1.0}).due_s(5) == 5.0
    costs = {0: 4.0, 1: 1.0, 2: 2.0, 3: 2.0}
    assert turn(None, True, costs).due_s(10) == 10.0
    # Even shares, of 20 samples each; and shares by speed, with which all take as long.
    assert turn(80, False, costs).due_s(10) == 20.0
    assert turn(90, True, costs).due_s(5) == 20.0
    alone = Turn(10, None, lambda: (0,), 0, Pace(False, torch.device("cpu"), is_told=True))
    assert alone.due_s(10) is None


def test_late_progress_is_one_more_member_whose_samples_are_discounted():
    assert [discount(age) for age in (0, 1, 3)] == [1.0, 0.5, 0.25]
    late = Carried(torch.tensor([4.0, 0.0]), 8.0, 16.0)
    assert late.joined(torch.tensor([1.0, 3.0]), 24.0).tolist() == [1.75, 2.25]
    # Where members send parameters, it is as far from the shared ones.
    outer = torch.tensor([10.0, 10.0])
    assert late.joined(torch.tensor([9.0, 7.0]), 24.0, outer).tolist() == [8.25, 7.75]
    assert late.joined(torch.zeros(2), 0.0).tolist() == [4.0, 0.0]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "soon", True])
def test_a_grace_that_is_no_number_of_seconds_is_refused(value):
    net = model()
    inner = torch.optim.SGD(net.parameters(), 0.1)
    with pytest.raises(ConfigError, match=r"grace_s = .*; accepted: seconds, 0 and more, or None"):
        ft.DiLoCo(net, inner, Alone(), grace_s=value)


def test_a_site_has_no_rule_for_late_members_yet():
    with pytest.raises(ConfigError, match=r"grace_s = 1.0 with a Site; accepted: None"):
        refuse_in_site(grace_s=1.0)


# ---- every method --------------------------------------------------------------------------------


def world(kind: str, rounds: int, still_at: int):
    """Three ranks, one of which stands still for three rounds."""
    nets = [model() for _ in range(3)]

    def program(exchange: ThreadExchange):
        rank = exchange.rank
        net = nets[rank]
        inner = torch.optim.Adam(net.parameters(), 3e-3)
        trainer = GRACED[kind](net, inner, exchange, grace_s=LONG_S)
        record = recorded(trainer)
        rows = train(trainer, net, rank, rounds, still_at if rank == LATE else None)
        trainer.finish()
        same = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
        assert same.numpy().tobytes() == bits(trainer)
        assert trainer.steps == rounds * H
        return record, rows, trainer

    return run(3, program)


@pytest.mark.parametrize("kind", GRACED)
def test_others_go_on_without_the_late_one_whose_progress_comes_later_discounted(kind):
    # In the middle of the fourth round: what a round costs is told by then.
    still_at = 3 * H + 2
    ranks = world(kind, 12, still_at)
    records = [record for record, _, _ in ranks]
    # Shared parameters have the same bits on all after each outer step, and so have means.
    for record in records[1:]:
        assert record.shared == records[0].shared
        assert record.means.keys() == records[0].means.keys()
    for at, (value, weights) in records[0].means.items():
        for record in records[1:]:
            assert torch.equal(record.means[at][0], value)
            assert record.means[at][1] == weights
        told = {rank: record.sent[at].weight for rank, record in enumerate(records)}
        assert {rank: weight for rank, weight in told.items() if weight} == weights
        if kind not in ("sparse", "local sgd, int8"):
            sent = [record.sent[at].tensor.double() * told[r] for r, record in enumerate(records)]
            want = sum(sent) / sum(told.values())
            torch.testing.assert_close(value.double(), want, rtol=1e-4, atol=1e-6)
    # The late one was stood in for in each exchange of three rounds, and nobody else ever was.
    stood = sorted(at for at, sent in records[LATE].sent.items() if sent.late)
    fragments = len(ranks[0][2].rounds.parts)
    assert len(stood) >= 3 * fragments - (fragments - 1)
    assert all(step > still_at for step, _ in stood)
    assert not any(sent.late for record in records[:LATE] for sent in record.sent.values())
    for at, last in records[0].last.items():
        assert last.late == ((LATE,) if at in stood else ())
    # Of the first ones it had nothing to say; then its progress came, with its age's discount.
    own = [records[LATE].sent[at] for at in sorted(records[LATE].sent)]
    first = next(number for number, sent in enumerate(own) if sent.late)
    assert [sent.weight for sent in own[first : first + fragments]] == [0.0] * fragments
    late = [sent for sent in own if sent.count and sent.weight != sent.count]
    assert late
    assert all(sent.weight < sent.count for sent in late)
    # Each sample counts once, however late it is.
    for fragment in range(fragments):
        counts = [sent.count for at, sent in records[LATE].sent.items() if at[1] == fragment]
        last_begin = max(step for step, of in records[LATE].sent if of == fragment)
        made = [row for row in ranks[LATE][1] if row <= last_begin]
        if "batch" not in kind:
            assert sum(counts) == 16 * len(made)


def test_a_member_that_is_slow_in_each_round_takes_part_a_round_late():
    nets = [model() for _ in range(3)]
    pause = threading.Event()

    def program(exchange: ThreadExchange):
        rank = exchange.rank
        net = nets[rank]
        grace = SHORT_S if rank == LATE else LONG_S
        trainer = ft.DiLoCo(
            net, torch.optim.Adam(net.parameters(), 3e-3), exchange, inner_steps=H, grace_s=grace
        )
        record = recorded(trainer)
        for turn in range(8):
            while trainer.steps < (turn + 1) * H:
                # The others take half as long for a round as this one for a step.
                pause.wait(0.2 if rank == LATE and turn else 0.1 / H)
                local_step(trainer, net, rank, trainer.steps)
        trainer.finish()
        return record, bits(trainer)

    ranks = run(3, program)
    assert ranks[0][1] == ranks[1][1] == ranks[2][1]
    late = [sent for _, sent in sorted(ranks[LATE][0].sent.items())][1:]
    assert sum(sent.late for sent in late) >= 5
    # By its stand-in, in most rounds: what it had done in the rounds before.
    assert sum(sent.late and 0 < sent.weight < sent.count for sent in late) >= 3


class Committed(ft.DataLedger):
    """Has the indices that each mean commits."""

    def __init__(self, size: int, lease: int) -> None:
        super().__init__(size, lease, shuffle=False)
        self.indices: list[int] = []

    def arrived(self, fragment, counts, dropped=()):
        before = self._free_or_held()
        super().arrived(fragment, counts, dropped)
        self.indices += sorted(before - self._free_or_held())

    def _free_or_held(self) -> set[int]:
        held = [each for lease in self._state.leases.values() for each in lease.ranges]
        return {place for each in [*self._state.free, *held] for place in range(*each)}


@pytest.mark.parametrize("kind", ["diloco", "streaming, 3, 3", "eager, 1, 6", "sparse"])
def test_samples_of_a_late_member_count_once_when_its_progress_comes(kind):
    nets = [model() for _ in range(3)]
    size = 3000

    def program(exchange: ThreadExchange):
        rank = exchange.rank
        net = nets[rank]
        inner = torch.optim.Adam(net.parameters(), 3e-3)
        trainer = GRACED[kind](net, inner, exchange, grace_s=LONG_S)
        ledger = Committed(size, lease=300)
        trainer.attach(ledger)
        trainer.advance(each_round=True)
        loader = torch.utils.data.DataLoader(range(size), 16, sampler=ledger)
        still_at = 3 * H + 2 if rank == LATE else size
        for indices in ledger.batches(loader):
            if trainer.steps >= still_at:
                still_at = size
                stand_still(trainer, 3)
            count = 0 if indices is None else len(indices)
            x, y = batch(rank, trainer.steps, count=max(1, count))
            inner.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            trainer.step(count)
        trainer.finish()
        return ledger.indices, ledger.digest, trainer.steps, bits(trainer)

    ranks = run(3, program)
    assert ranks[0] == ranks[1] == ranks[2]
    assert sorted(ranks[0][0]) == list(range(size))


# ---- what else a member does ---------------------------------------------------------------------


class Pair(Alone):
    """Two members, of whom the other has nothing to say; exchanges fail when they are to."""

    size, members = 2, (0, 1)
    fails = False

    def regroup(self, members) -> None:
        pass

    def gather(self, rows, own):
        rows[0].copy_(own)
        return self.sum(rows)

    def sum(self, tensor):
        # Of progress, and of its frames: not of what members tell each other beside it.
        if self.fails and tensor.dtype != torch.int64:
            raise PeerLost("rank 1 was lost", ranks=(1,))
        return super().sum(tensor)


def lone(kind: str = "diloco", grace: float = SHORT_S):
    net, exchange = model(), Pair()
    trainer = GRACED[kind](net, torch.optim.SGD(net.parameters(), 0.1), exchange, grace_s=grace)
    while trainer.steps < H:
        local_step(trainer, net, 0, trainer.steps)
    return trainer, net, exchange


def until(what) -> None:
    end = time.monotonic() + LIMIT_S
    pause = threading.Event()
    while not what():
        assert time.monotonic() < end
        pause.wait(0.005)


@pytest.mark.parametrize("kind", ["diloco", "eager, 1, 6", "streaming, 3, 3", "sparse"])
def test_what_fails_for_a_stand_in_is_told_to_the_next_step_and_nothing_is_lost(kind):
    trainer, net, exchange = lone(kind)
    while trainer._turn.due_s(1) is None:
        local_step(trainer, net, 0, trainer.steps)
    exchange.fails = True
    until(lambda: trainer._stand_in._error is not None)
    steps = trainer.steps
    with pytest.raises(PeerLost, match="rank 1 was lost"):
        local_step(trainer, net, 0, steps)
    exchange.fails = False
    assert trainer.steps == steps
    before = bits(trainer)
    while trainer.steps < steps + 3 * H:
        local_step(trainer, net, 0, trainer.steps)
    trainer.finish()
    assert bits(trainer) != before
    assert all(torch.isfinite(p).all() for p in net.parameters())


def test_nobody_stands_in_before_speeds_are_told_in_a_pause_and_after_the_end():
    net = model()
    trainer = ft.DiLoCo(
        net, torch.optim.SGD(net.parameters(), 0.1), Pair(), inner_steps=H, grace_s=0.0
    )
    pause = threading.Event()
    local_step(trainer, net, 0, 0)
    pause.wait(0.1)
    assert trainer.steps == 1
    while trainer.steps < H:
        local_step(trainer, net, 0, trainer.steps)
    for call in (trainer.pause, trainer.state_dict, trainer.advance, trainer.finish):
        until(lambda: trainer.steps % H == 0 or _step(trainer, net))
        call()
        steps = trainer.steps
        pause.wait(0.1)
        assert trainer.steps == steps
        _step(trainer, net)
    stand_still(trainer, 2)


def _step(trainer: ft.Trainer, net: torch.nn.Module) -> bool:
    local_step(trainer, net, 0, trainer.steps)
    return False


def test_progress_that_is_not_finite_counts_for_nothing_when_it_comes_late():
    trainer, net, _ = lone()
    stand_still(trainer, 1)
    with torch.no_grad():
        next(net.parameters()).fill_(float("nan"))
    _step(trainer, net)
    assert all(torch.isfinite(p).all() for p in net.parameters())
    trainer._stand_in.grace_s = LONG_S
    with pytest.warns(RuntimeWarning, match="rank 0 is not finite"):
        until(lambda: bool(trainer.last.not_finite) or _step(trainer, net))
    assert all(torch.isfinite(p).all() for p in trainer.shared_parameters().values())


def test_what_is_carried_is_in_a_checkpoint():
    trainer, net, _ = lone()
    stand_still(trainer, 2)
    _step(trainer, net)
    trainer.pause()
    weight, samples = trainer._own["carried"][0].tolist()
    assert 0 < weight < samples
    other = model()
    resumed = GRACED["diloco"](
        other, torch.optim.SGD(other.parameters(), 0.1), Pair(), grace_s=LONG_S
    )
    other.load_state_dict(net.state_dict())
    resumed.load_state_dict(trainer.state_dict())
    trainer._stand_in.grace_s = LONG_S
    for one, its in ((trainer, net), (resumed, other)):
        end = one.steps + 2 * H
        while one.steps < end:
            x, y = batch(0, one.steps)
            one.inner.zero_grad()
            torch.nn.functional.cross_entropy(its(x), y).backward()
            one.step(len(y))
    assert bits(resumed) == bits(trainer)


def test_no_thread_is_left_when_the_trainer_is_dropped_and_a_fork_has_none():
    trainer, net, _ = lone(grace=LONG_S)
    thread = trainer._stand_in._thread
    assert thread.is_alive()
    child = os.fork()
    if child == 0:
        trainer._stand_in.close()
        os._exit(0)
    until(lambda: os.waitpid(child, os.WNOHANG)[0] == child)
    assert thread.is_alive()
    del trainer, net
    gc.collect()
    until(lambda: not thread.is_alive())


def test_members_hear_who_is_late_and_where_others_wait():
    def program(exchange: ThreadExchange):
        late = 1.5 if exchange.rank == 1 else None
        first = Meeting(exchange, torch.device("cpu"), late).wait()
        row = 0 if exchange.rank == 2 else None
        return first, Meeting(exchange, torch.device("cpu"), row=row).wait()

    for first, second in run(3, program):
        assert first == ({1: 1.5}, None)
        assert second == ({}, 0)
