"""A member's share of a round: dealing, rows that are passed, batches that stay as they are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from methods import BATCHED, H, bits, local_step, model  # noqa: E402
from thread_exchange import Alone, ThreadExchange, run  # noqa: E402
from torch import nn  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import ConfigError, PeerLost  # noqa: E402
from holdfast.ft.outer.pace import Pace  # noqa: E402
from holdfast.ft.outer.turn import Turn, shares  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("total", [5, 6, 64, 1000, 1001])
@pytest.mark.parametrize("speeds", [[1.0] * 5, [1, 2, 3, 4, 5], [1e-6, 1, 1, 1, 1], [7, 7, 0.1]])
def test_shares_add_up_to_the_whole_and_go_by_speed(total, speeds):
    dealt = shares(total, speeds)
    assert sum(dealt) == total
    assert min(dealt) >= 1
    for share, speed in zip(dealt, speeds, strict=True):
        exact = (total - len(speeds)) * speed / sum(speeds)
        assert abs(share - 1 - exact) < 1
    order = sorted(range(len(speeds)), key=lambda at: (speeds[at], -at))
    assert [dealt[at] for at in order] == sorted(dealt)


def turn_of(rows: int, batch: int | None, members: tuple[int, ...], rank: int) -> Turn:
    return Turn(rows, batch, lambda: members, rank, Pace(False, torch.device("cpu")))


@pytest.mark.parametrize("batch", [3, 7, 48, 1000])
@pytest.mark.parametrize("rows", [1, 6, 50])
@pytest.mark.parametrize("most", [1, 5, 16, 5000])
def test_each_row_is_passed_once_and_in_order_whatever_the_share(batch, rows, most):
    done = 0
    for rank in range(3):
        turn = turn_of(rows, batch, (0, 1, 2), rank)
        for turns in range(3):
            steps = turns * rows
            sizes = []
            assert turn.is_whole
            while not sizes or not turn.is_whole:
                sizes.append(turn.next_batch(most))
                turn.check(sizes[-1])
                for row in turn.passed(sizes[-1], steps):
                    steps += 1
                    assert (steps - 1) % rows + 1 == row
            assert steps == (turns + 1) * rows
            assert sum(sizes) in (batch // 3, batch // 3 + 1)
            assert max(sizes) <= most
            assert max(sizes) - min(sizes) <= 1
            done += sum(sizes)
    assert done == 3 * batch


def test_members_that_were_at_other_places_are_at_the_same_row_after_a_loss_that_is_an_error():
    for batch in (4, 5, 90):
        for done in range(1, 6):
            turn = turn_of(6, batch, (0,), 0)
            steps = 0
            for _ in range(done if batch > 6 else min(done, batch - 1)):
                for _ in turn.passed(1, steps):
                    steps += 1
            for place in range(1, 6):
                turn.go_to(6 + place)
                turn.refuse_within("advance()")
                passed = []
                while turn.left:
                    passed += turn.passed(1, 6 + place + len(passed))
                    if turn.is_whole:
                        break
                assert passed == list(range(place + 1, 7))


def train(trainer: ft.Trainer, net: nn.Module, rank: int, rounds: int) -> None:
    end = trainer.steps + rounds * trainer.rounds.inner_steps
    while trainer.steps < end or not trainer.at_boundary:
        local_step(trainer, net, rank, trainer.steps)


@pytest.mark.parametrize("kind", BATCHED)
def test_a_round_has_the_same_samples_with_any_number_of_members(kind):
    for size in (1, 2, 3):
        nets = [model() for _ in range(size)]

        def program(exchange: ThreadExchange, nets=nets, size=size) -> list[bytes]:
            net = nets[exchange.rank]
            trainer = BATCHED[kind](net, torch.optim.Adam(net.parameters()), exchange)
            batch = trainer._turn._batch
            trail = []
            for turn in range(5):
                train(trainer, net, exchange.rank, 1)
                assert trainer.steps == (turn + 1) * H
                trail.append(bits(trainer))
                if trainer.last is not None and turn > 1:
                    assert sum(trainer.last.weights.values()) == batch
                    assert len(trainer.last.weights) == size
            trainer.finish()
            return trail

        ranks = run(size, program)
        assert all(trail == ranks[0] for trail in ranks)
        assert len(set(ranks[0])) >= 4


def test_shares_are_dealt_anew_when_the_world_changes():
    found: dict[int, list[int]] = {}
    for members in ((0, 1, 2, 3), (0, 2, 3), (0, 3), (0,)):
        dealt = [turn_of(6, 64, members, rank).share for rank in members]
        assert sum(dealt) == 64
        found[len(members)] = dealt
    assert found == {4: [16] * 4, 3: [22, 21, 21], 2: [32, 32], 1: [64]}


def test_a_resumed_run_goes_on_in_the_middle_of_its_share():
    net, other = model(), model()
    trainer = BATCHED["streaming"](net, torch.optim.SGD(net.parameters(), 0.1), Alone())
    resumed = BATCHED["streaming"](other, torch.optim.SGD(other.parameters(), 0.1), Alone())
    for _ in range(20):
        net(torch.ones(1, 8)).sum().backward()
        trainer.step(trainer.next_batch(16))
    other.load_state_dict(net.state_dict())
    resumed.load_state_dict(trainer.state_dict())
    assert not resumed.at_boundary
    assert resumed._turn.left == trainer._turn.left == 1000 - 320
    for one, its in ((trainer, net), (resumed, other)):
        train(one, its, 0, 2)
    assert bits(resumed) == bits(trainer)


def test_what_has_no_place_in_a_global_batch_is_refused_with_what_has():
    net = model()

    def make(batch):
        inner = torch.optim.SGD(net.parameters(), 0.1)
        return ft.DiLoCo(net, inner, Alone(), inner_steps=H, global_batch=batch)

    for batch in (0, -5, 2.5):
        with pytest.raises(ConfigError, match=f"global_batch = {batch}; accepted: a whole number"):
            make(batch)
    trainer = make(40)
    for samples in (0, 41, 1.5, -1):
        with pytest.raises(ConfigError, match=r"samples = .* accepted: "):
            trainer.step(samples)
    assert trainer.steps == 0
    trainer.step(30)
    with pytest.raises(ConfigError, match=r"samples = 11 .*10 left .*1 to 10; ask trainer.next_"):
        trainer.step(11)
    for call in (trainer.finish, trainer.advance):
        with pytest.raises(ConfigError, match=r"in the middle of a round .*between rounds"):
            call()
    with pytest.raises(ConfigError, match="most = 0"):
        trainer.next_batch(0)
    trainer.step(10)
    trainer.finish()
    with pytest.raises(ConfigError, match="global_batch = 2 with 3 members; accepted: 3 and more"):
        turn_of(H, 2, (0, 1, 2), 0)


def test_a_run_that_goes_on_with_other_members_deals_the_rest_of_the_round_anew():
    before = turn_of(10, 100, (0, 1), 0)
    assert list(before.passed(20, 0)) == [1, 2, 3, 4]
    after = turn_of(10, 100, (0, 1, 2, 3), 0)
    after.own.copy_(before.own)
    after.deal_anew(4)
    assert (after.share, after.left) == (25, 15)
    assert list(after.passed(15, 4)) == [5, 6, 7, 8, 9, 10]


class _Fails(Alone):
    """The second exchange fails."""

    size, members = 2, (0, 1)
    ops = 0

    def regroup(self, members) -> None:
        pass

    def gather(self, rows, own):
        rows[0].copy_(own)
        return super().sum(rows)

    def sum(self, tensor):
        self.ops += tensor.is_floating_point()
        if self.ops == 2 and tensor.is_floating_point():
            raise PeerLost("rank 1 was lost", ranks=(1,))
        return super().sum(tensor)


def test_a_loss_that_is_an_error_leaves_a_member_at_the_row_where_it_was():
    net = model()
    trainer = ft.StreamingDiLoCo(
        net,
        torch.optim.SGD(net.parameters(), 0.1),
        _Fails(),
        inner_steps=H,
        fragments=3,
        global_batch=8,
    )
    lost = 0
    while trainer.steps < 4 * H or not trainer.at_boundary:
        try:
            trainer.step(trainer.next_batch(4))
        except PeerLost:
            lost += 1
            # All survivors are after this row, and may pass a boundary.
            assert trainer.steps == 4
            trainer.advance()
    assert lost == 1
    assert trainer.steps == 4 * H
