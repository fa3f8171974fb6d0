"""Residuals: changed by whole ops only, whoever comes and goes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import ThreadExchange, run  # noqa: E402

from holdfast.compress import Residuals  # noqa: E402


def begin(residuals: Residuals, name: str = "w", count: int = 4) -> torch.Tensor:
    return residuals.get(name, torch.Size([count]), torch.float32, torch.device("cpu"))


def test_begins_at_zero_and_keeps_what_is_committed():
    residuals = Residuals()
    assert torch.equal(begin(residuals), torch.zeros(4))
    residuals.commit("w", torch.arange(4.0))
    assert torch.equal(begin(residuals), torch.arange(4.0))


def test_a_residual_is_committed_once_per_op():
    residuals = Residuals()
    begin(residuals)
    residuals.commit("w", torch.ones(4))
    with pytest.raises(ValueError, match="'w': commit without an op under way"):
        residuals.commit("w", torch.ones(4))
    with pytest.raises(ValueError, match="rollback without an op"):
        residuals.rollback("w")
    begin(residuals)
    with pytest.raises(ValueError, match="an op on it is under way"):
        begin(residuals)


def test_an_op_that_fails_leaves_the_residual_as_it_was():
    residuals = Residuals()
    begin(residuals)
    residuals.commit("w", torch.arange(4.0))
    begin(residuals)
    residuals.rollback("w")
    assert torch.equal(residuals.peek("w"), torch.arange(4.0))


def test_a_loss_leaves_others_alone_and_a_joiner_starts_at_zero():
    mine, joiner = Residuals(), Residuals()
    for residuals in (mine, joiner):
        begin(residuals)
        residuals.commit("w", torch.ones(4))
    mine.on_lost(2)
    assert mine.lost == {2}
    mine.on_join(2)
    joiner.on_join()
    assert mine.lost == frozenset()
    assert torch.equal(mine.peek("w"), torch.ones(4))
    assert joiner.peek("w") is None


def test_another_shape_is_refused_by_name():
    residuals = Residuals()
    begin(residuals)
    residuals.commit("w", torch.ones(4))
    with pytest.raises(ValueError, match=r"shape of residual 'w' = \(5,\); accepted: \(4,\)"):
        begin(residuals, count=5)


def test_saving_and_loading_keep_every_bit():
    residuals, other = Residuals(), Residuals()
    begin(residuals)
    residuals.commit("w", torch.tensor([1e-45, -0.0, 3.0, float("inf")]))
    other.load_state_dict(residuals.state_dict())
    assert (
        other.peek("w").view(torch.int32).tolist() == residuals.peek("w").view(torch.int32).tolist()
    )
    with pytest.raises(ValueError, match="state of residuals"):
        other.load_state_dict({"x": 1})


def parts(exchange: ThreadExchange, members: tuple[int, ...]) -> list[float] | None:
    """Ranks 0..3 hold 1, 2, 3 of a vector of ten each; then only `members` are there."""
    residuals = Residuals()
    if exchange.rank < 3:
        exchange.regroup((0, 1, 2))
        residuals.respread("w", 10, 4, exchange, torch.device("cpu"))
        got = begin(residuals)
        assert torch.equal(got, torch.zeros(4))
        residuals.commit("w", torch.full((4,), exchange.rank + 1.0))
    for lost in {0, 1, 2} - set(members):
        residuals.on_lost(lost)
    for new in set(members) - {0, 1, 2}:
        residuals.on_join(None if new == exchange.rank else new)
    exchange.regroup(members)
    length = -(-10 // len(members))
    if exchange.rank in members:
        residuals.respread("w", 10, length, exchange, torch.device("cpu"))
        return residuals.peek("w").tolist()
    exchange.sum(torch.zeros(10))  # the barrier has a place for it
    return None


def test_parts_move_when_a_rank_comes_in():
    assert run(4, lambda x: parts(x, (0, 1, 2, 3))) == [
        [1.0, 1.0, 1.0],
        [1.0, 2.0, 2.0],
        [2.0, 2.0, 3.0],
        [3.0, 0.0, 0.0],
    ]


def test_parts_move_when_a_rank_is_lost_and_its_own_is_gone():
    assert run(3, lambda x: parts(x, (0, 2))) == [
        [1.0, 1.0, 1.0, 1.0, 0.0],
        None,
        [0.0, 0.0, 0.0, 3.0, 3.0],
    ]
