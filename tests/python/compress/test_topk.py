"""Top-k: what is sent, what is kept, and that both add up."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone, Meeting, ThreadExchange, run  # noqa: E402

from holdfast.compress import TopK  # noqa: E402


def gradient(rank: int, step: int = 0) -> torch.Tensor:
    return torch.randn(20, 10, generator=torch.Generator().manual_seed(97 * step + rank))


def test_the_largest_elements_are_sent_and_the_rest_is_kept():
    values = torch.tensor([0.1, -5.0, 3.0, 0.2])
    reducer = TopK(0.5, exchange=Alone())
    assert reducer("w", values.clone()).tolist() == [0.0, -5.0, 3.0, 0.0]
    assert torch.equal(reducer.residuals.peek("w"), torch.tensor([0.1, 0.0, 0.0, 0.2]))


def test_sent_and_residual_are_exactly_what_came_in():
    reducer = TopK(0.1, exchange=Alone())
    for step in range(5):
        old = reducer.residuals.peek("w")
        old = torch.zeros(200) if old is None else old.clone()
        sent = reducer("w", gradient(0, step))
        assert torch.equal(
            sent.flatten() + reducer.residuals.peek("w"), gradient(0, step).flatten() + old
        )


def test_every_rank_has_the_average_of_what_all_sent_and_the_same_bits():
    def program(exchange: ThreadExchange) -> tuple[torch.Tensor, torch.Tensor]:
        reducer = TopK(0.1, exchange=exchange)
        got = reducer("w", gradient(exchange.rank))
        return got, gradient(exchange.rank) - reducer.residuals.peek("w").view(20, 10)

    ranks = run(3, program)
    for got, _ in ranks:
        assert torch.equal(got, ranks[0][0])
    torch.testing.assert_close(ranks[0][0], sum(sent for _, sent in ranks) / 3)


def test_all_elements_are_the_plain_average():
    def program(exchange: ThreadExchange) -> torch.Tensor:
        return TopK(1.0, exchange=exchange)("w", gradient(exchange.rank))

    want = sum(gradient(r) for r in range(3)) / 3
    for got in run(3, program):
        torch.testing.assert_close(got, want)


def test_momentum_correction_is_momentum_where_everything_is_sent_late():
    """With one rank, an element that was never sent holds the sum of its momentum's steps."""
    reducer = TopK(0.01, momentum=0.9, exchange=Alone())
    constant = torch.tensor([10.0] + [0.5] * 99)
    velocity, total = 0.0, 0.0
    for _ in range(4):
        reducer("w", constant.clone())
        velocity = 0.9 * velocity + 0.5
        total += velocity
    assert float(reducer.residuals.peek("w")[5]) == pytest.approx(total)
    assert float(reducer.residuals.peek("w/velocity")[5]) == pytest.approx(velocity)
    assert float(reducer.residuals.peek("w/velocity")[0]) == 0.0


def test_the_ratio_falls_over_the_warm_up():
    reducer = TopK(0.01, ramp_steps=4, exchange=Alone())
    counts = [int((reducer("w", torch.rand(1000) + 1) != 0).sum()) for _ in range(6)]
    assert counts[0] == 250
    assert counts[4:] == [10, 10]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_values_that_are_not_finite_give_nan_everywhere_and_spoil_no_residual(bad, momentum):
    def program(exchange: ThreadExchange) -> tuple[bool, bool]:
        reducer = TopK(0.05, momentum=momentum, exchange=exchange)
        reducer("w", gradient(exchange.rank))
        before = {k: v.clone() for k, v in reducer.residuals.state_dict()["kept"].items()}
        mine = gradient(exchange.rank, 1)
        if exchange.rank == 1:
            mine[2, 3] = bad
        got = reducer("w", mine)
        after = reducer.residuals.state_dict()["kept"]
        return bool(got.isnan().all()), all(torch.equal(before[k], after[k]) for k in before)

    assert run(2, program) == [(True, True)] * 2


def test_zeros_give_zeros():
    reducer = TopK(0.1, exchange=Alone())
    assert torch.equal(reducer("w", torch.zeros(50)), torch.zeros(50))


def test_an_op_that_fails_leaves_the_residual_as_it_was():
    exchange = ThreadExchange(Meeting(1), 0)
    reducer = TopK(0.1, momentum=0.9, exchange=exchange)
    reducer("w", gradient(0))
    kept = reducer.residuals.peek("w").clone()
    exchange.fail_at = 2
    with pytest.raises(ConnectionError):
        reducer("w", gradient(1))
    assert torch.equal(kept, reducer.residuals.peek("w"))
    reducer("w", gradient(1))


def test_resume_goes_on_with_the_same_bits():
    straight = TopK(0.05, momentum=0.9, ramp_steps=8, exchange=Alone())
    for step in range(3):
        straight("w", gradient(0, step))
    resumed = TopK(0.05, momentum=0.9, ramp_steps=8, exchange=Alone())
    resumed.load_state_dict(straight.state_dict())
    for step in range(3, 6):
        assert torch.equal(straight("w", gradient(0, step)), resumed("w", gradient(0, step)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.0}, "ratio = 0.0; accepted"),
        ({"ratio": 1.5}, "ratio = 1.5; accepted"),
        ({"momentum": 1.0}, "momentum = 1.0; accepted"),
        ({"nesterov": True}, "nesterov = True; accepted: False without momentum"),
        ({"ramp_steps": -1}, "ramp_steps = -1; accepted"),
    ],
)
def test_bad_options_are_refused_by_value(options, message):
    with pytest.raises(ValueError, match=message):
        TopK(exchange=Alone(), **options)
