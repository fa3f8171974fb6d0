"""Outer optimisers, mixing, weighted means and sparse frames: functions of tensors."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: outer steps are made of it")

from thread_exchange import Alone, ThreadExchange, run  # noqa: E402

from holdfast.errors import ConfigError  # noqa: E402
from holdfast.ft import OuterAdam, OuterNesterov, OuterSGD  # noqa: E402
from holdfast.ft.outer import mean, mixing, sparse_frame  # noqa: E402
from holdfast.ft.outer.coded import CodedExchange  # noqa: E402
from holdfast.ft.outer.optimizers import is_average  # noqa: E402


def noise(seed: int, count: int = 1000, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed), dtype=dtype)


PAIRS = {
    "sgd": (OuterSGD(0.3), lambda p: torch.optim.SGD(p, 0.3)),
    "heavy ball": (OuterSGD(0.3, 0.8), lambda p: torch.optim.SGD(p, 0.3, momentum=0.8)),
    "nesterov": (
        OuterNesterov(0.7, 0.5),
        lambda p: torch.optim.SGD(p, 0.7, momentum=0.5, nesterov=True),
    ),
    "adam": (OuterAdam(0.1, (0.8, 0.9)), lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.9))),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_an_outer_optimiser_is_torchs_on_progress_as_gradient(kind):
    ours, make = PAIRS[kind]
    outer, theirs = noise(1), torch.nn.Parameter(noise(1))
    state = {name: torch.zeros(n, dtype=outer.dtype) for name, n in ours.state_of(1000).items()}
    optimizer = make([theirs])
    for step in range(5):
        theirs.grad = noise(10 + step)
        optimizer.step()
        ours.update(outer, noise(10 + step), state)
    torch.testing.assert_close(outer, theirs.detach(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: OuterSGD(0), "rate = 0"),
        (lambda: OuterSGD(1, 1), "momentum = 1"),
        (lambda: OuterNesterov(-1), "rate = -1"),
        (lambda: OuterAdam(betas=(0.9, 1)), "betas"),
        (lambda: OuterAdam(eps=0), "eps = 0"),
    ],
)
def test_bad_numbers_are_refused_by_name(make, word):
    with pytest.raises(ConfigError, match=word):
        make()


def test_rate_one_without_momentum_is_the_average():
    assert is_average(OuterSGD())
    assert not any(map(is_average, [OuterSGD(0.5), OuterSGD(1, 0.1), OuterNesterov(1, 0)]))


def test_mixing_keeps_what_it_is_told_to():
    local, outer = noise(1), noise(2)
    assert mixing.mix(local, outer, 0) is outer
    torch.testing.assert_close(mixing.mix(local, outer, 0.25), 0.25 * local + 0.75 * outer)
    assert torch.equal(mixing.mix(local, outer, 1), local)


def test_a_norm_does_not_depend_on_the_number_of_threads():
    flat = noise(3, 3_000_001, torch.float32)
    threads = torch.get_num_threads()
    try:
        found = set()
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.add(mixing.norm(flat))
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1
    assert math.isclose(found.pop(), float(flat.double().norm()), rel_tol=1e-12)


def test_a_clip_shortens_what_is_longer_and_nothing_else():
    flat = noise(4)
    before = mixing.norm(flat)
    assert mixing.clip(flat, 2 * before) == before
    assert torch.equal(flat, noise(4))
    assert mixing.clip(flat, before / 3) == before
    assert math.isclose(mixing.norm(flat), before / 3, rel_tol=1e-12)


def test_the_staleness_gap_is_measured_in_lengths_of_progress():
    assert mixing.staleness(0, 5) == 1
    assert mixing.staleness(5, 5) == 2
    assert mixing.staleness(5, 0) == 1


# ---- means ---------------------------------------------------------------------------------------


def test_equal_members_have_the_plain_mean_bit_for_bit():
    def program(exchange: ThreadExchange) -> mean.Mean:
        mine = noise(exchange.rank, dtype=torch.float32)
        return mean.begin(exchange, mine, mean.Share(96, 96, True)).wait()

    plain = torch.zeros(1000)
    for rank in range(3):
        plain += noise(rank, dtype=torch.float32)
    for found in run(3, program):
        assert torch.equal(found.value, plain / 3)
        assert found.weights == {0: 96, 1: 96, 2: 96}
        assert found.unit == 96
        assert not found.not_finite


@pytest.mark.parametrize("codec", [None, "int8"])
def test_members_count_by_their_samples_and_odd_ones_not_at_all(codec):
    weights, unit = (10, 0, 30, 7), 20.0

    def program(exchange: ThreadExchange) -> mean.Mean:
        mine = noise(exchange.rank, dtype=torch.float32)
        share = mean.Share(weights[exchange.rank], unit, exchange.rank != 3)
        if exchange.rank == 3:
            mine[5] = float("nan")
        return mean.begin(CodedExchange(exchange), mine, share, codec).wait()

    want = (10 * noise(0, dtype=torch.float32) + 30 * noise(2, dtype=torch.float32)) / 40
    found = run(4, program)
    for one in found:
        assert torch.equal(one.value, found[0].value)
        assert one.weights == {0: 10, 2: 30}
        assert one.not_finite == (3,)
        tolerance = 0.05 if codec else 1e-6
        torch.testing.assert_close(one.value, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("codec", [None, "int8"])
def test_a_coded_mean_takes_weights(codec):
    def program(exchange: ThreadExchange) -> torch.Tensor:
        mine = noise(exchange.rank, dtype=torch.float32)
        if exchange.rank == 2:
            mine[0] = float("nan")
        CodedExchange(exchange).mean(mine, codec, (1.0, 3.0, 0.0)[exchange.rank]).wait()
        return mine

    want = (noise(0, dtype=torch.float32) + 3 * noise(1, dtype=torch.float32)) / 4
    for found in run(3, program):
        torch.testing.assert_close(found, want, rtol=0.05, atol=0.05)


def test_where_nobody_has_a_weight_the_mean_is_empty():
    def program(exchange: ThreadExchange) -> mean.Mean:
        mine = torch.full((4,), float("inf"))
        return mean.begin(exchange, mine, mean.Share(5, 5, False)).wait()

    for found in run(2, program):
        assert found.is_empty
        assert found.not_finite == (0, 1)
        assert torch.equal(found.value, torch.zeros(4))


def test_the_mean_of_one_is_its_own_bits_whatever_its_weight():
    mine = noise(1)
    found = mean.begin(Alone(), mine.clone(), mean.Share(3, 7, True)).wait()
    assert torch.equal(found.value, mine)
    assert found.weights == {0: 3}


# ---- sparse frames -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 63, 4096, 4097, 50_000])
@pytest.mark.parametrize("ratio", [1 / 4096, 1 / 64, 0.03, 1.0])
def test_a_sparse_frame_has_the_largest_with_their_signs(count, ratio):
    flat = noise(9, count, torch.float32)
    frame = sparse_frame.encode(flat, ratio)
    assert frame.numel() == sparse_frame.length(count, ratio)
    got = sparse_frame.decode(frame, count, ratio)
    for at in range(0, count, 4096):
        chunk, read = flat[at : at + 4096], got[at : at + 4096]
        k = min(sparse_frame.chosen(ratio), chunk.numel())
        largest = torch.topk(chunk.abs(), k).indices
        assert set(read.nonzero().flatten().tolist()) <= set(largest.tolist())
        assert torch.equal(read[largest].sign(), chunk[largest].sign())
        assert len(set(read.abs().tolist()) - {0.0}) <= 2
    left = float((flat - got).norm())
    assert left < float(flat.norm())


def test_a_frame_at_one_in_64_is_a_140th_of_float32():
    assert sparse_frame.chosen(0.0156) == 64
    count = 1 << 20
    assert sparse_frame.length(count, 0.0156) * 140 <= 4 * count


def test_a_frame_of_zeros_is_zeros():
    frame = sparse_frame.encode(torch.zeros(5000), 1 / 64)
    assert not sparse_frame.decode(frame, 5000, 1 / 64).any()
