"""The all-reduce of signs: what it keeps, what it conserves, and that all ranks agree."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone, ThreadExchange, run  # noqa: E402

from holdfast.compress import OneBit, OneBitMean, Residuals  # noqa: E402
from holdfast.compress.onebit_mean import decode, encode  # noqa: E402


def tensors(rank: int, step: int = 0) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(31 * step + rank)
    return [torch.randn(shape, generator=chance) for shape in ((37, 5), (300,), (1,), (64,))]


def mean(exchange, residuals, values, name="m", **options) -> list[torch.Tensor]:
    collective = OneBitMean(exchange, residuals, **{"block": 64, **options})
    for pending in collective.mean(name, values):
        pending.wait()
    return values


@pytest.mark.parametrize("scale", ["rms", "l1"])
def test_decoding_gives_each_sign_and_its_blocks_scale(scale):
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(0))
    x[0, 0, 0] = -0.0
    x[1, 2, 40:] = 0.0
    counts = torch.full((2, 3, 1), 64.0)
    counts[1, 2] = 40
    got = decode(encode(x, counts, scale), counts, 64)
    power = x.square() if scale == "rms" else x.abs()
    scales = power.sum(-1, keepdim=True) / counts
    scales = scales.sqrt() if scale == "rms" else scales
    scales = torch.exp2((2 * scales.log2()).round() / 2)  # a byte of half octaves
    want = torch.where(x >= 0, scales, -scales)
    want[1, 2, 40:] = 0.0
    torch.testing.assert_close(got, want)
    assert encode(x, counts, scale).shape == (2, 3 * 64 // 8 + 3)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0.0, 0.0),
        (1e-38, 0.0),
        (2.0**-90, 2.0**-90),
        (1.0, 1.0),
        (3.0, 2.0**1.5),
        (65504.0, 65536.0),
        (1e18, 2.0**31),
        (float("inf"), None),
        (float("nan"), None),
    ],
)
def test_a_scale_is_a_byte_within_a_fifth_and_never_finite_by_mistake(size, told):
    counts = torch.full((1, 1, 1), 8.0)
    got = float(decode(encode(torch.full((1, 1, 8), size), counts, "l1"), counts, 8)[0, 0, 0])
    assert (math.isnan(got) and told is None) or got == pytest.approx(told)


@pytest.mark.parametrize("scale", ["rms", "l1"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_rank_ends_with_the_same_bits(scale, size):
    def program(exchange: ThreadExchange) -> list[torch.Tensor]:
        residuals = Residuals()
        for step in range(3):
            got = mean(exchange, residuals, tensors(exchange.rank, step), scale=scale)
        return got

    ranks = run(size, program)
    for other in ranks[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ranks[0], other, strict=True))


def test_sent_and_all_residuals_add_up_to_what_came_in():
    def program(exchange: ThreadExchange):
        residuals = Residuals()
        came = [torch.zeros_like(t) for t in tensors(0)]
        sent = [torch.zeros_like(t) for t in tensors(0)]
        for step in range(6):
            values = tensors(exchange.rank, step)
            came = [a + b for a, b in zip(came, values, strict=True)]
            got = mean(exchange, residuals, values, scale="l1")
            sent = [a + b for a, b in zip(sent, got, strict=True)]
        worker, server = residuals.peek("m/worker"), residuals.peek("m/server")
        return came[1], sent[1], worker[192:492], server

    ranks = run(3, program)
    server = torch.cat([r[3] for r in ranks])[192:492]
    came = sum(r[0] for r in ranks) / 3
    left = sum(r[2] for r in ranks) / 3 + server
    torch.testing.assert_close(ranks[0][1] + left, came, rtol=1e-4, atol=1e-4)


def test_a_thirtieth_of_the_bytes():
    def program(exchange: ThreadExchange) -> int:
        mean(exchange, Residuals(), [torch.randn(1 << 16)], block=1024)
        return exchange.sent

    # 1 + 1/4 parts of one bit each, and scales.
    assert max(run(4, program)) * 25 <= (1 << 16) * 4


def test_short_blocks_cost_a_tenth_of_the_bytes():
    def program(exchange: ThreadExchange) -> int:
        mean(exchange, Residuals(), [torch.randn(1 << 16)], block=64)
        return exchange.sent

    assert max(run(4, program)) * 22 <= (1 << 16) * 4


def test_zeros_give_zeros_and_no_nan():
    def program(exchange: ThreadExchange) -> float:
        residuals = Residuals()
        for _ in range(3):
            got = mean(exchange, residuals, [torch.zeros(100), torch.zeros(3, 3)])
        return float(sum(t.abs().sum() for t in got)) + float(
            residuals.peek("m/worker").abs().sum()
        )

    assert run(2, program) == [0.0, 0.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_give_nan_everywhere_and_spoil_no_residual(bad):
    def program(exchange: ThreadExchange) -> tuple[bool, bool]:
        residuals = Residuals()
        mean(exchange, residuals, tensors(exchange.rank))
        before = {k: v.clone() for k, v in residuals.state_dict()["kept"].items()}
        values = tensors(exchange.rank, 1)
        if exchange.rank == 0:
            values[1][7] = bad
        got = mean(exchange, residuals, values)
        after = residuals.state_dict()["kept"]
        return all(bool(t.isnan().all()) for t in got), all(
            torch.equal(before[k], after[k]) for k in before
        )

    assert run(3, program) == [(True, True)] * 3


def test_a_lost_rank_takes_its_part_along_and_the_rest_goes_on():
    def program(exchange: ThreadExchange):
        residuals = Residuals()
        mean(exchange, residuals, tensors(exchange.rank))
        kept = residuals.peek("m/worker").clone()
        exchange.regroup((0, 2))
        residuals.on_lost(1)
        if exchange.rank == 1:
            for like in (torch.zeros(640), torch.zeros(3, 64), torch.zeros(64)):
                exchange._all(like)
            return None
        got = mean(exchange, residuals, tensors(exchange.rank, 1))
        assert not torch.equal(kept, residuals.peek("m/worker"))
        return got

    first, lost, third = run(3, program)
    assert lost is None
    assert all(torch.equal(a, b) for a, b in zip(first, third, strict=True))


def test_resume_goes_on_with_the_same_bits():
    def program(exchange: ThreadExchange) -> bool:
        straight, resumed = Residuals(), Residuals()
        for step in range(3):
            mean(exchange, straight, tensors(exchange.rank, step))
        resumed.load_state_dict(straight.state_dict())
        a = mean(exchange, straight, tensors(exchange.rank, 4))
        b = mean(exchange, resumed, tensors(exchange.rank, 4))
        return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))

    assert run(3, program) == [True] * 3


def test_an_element_far_above_the_others_comes_soon_and_moves_them_little():
    """By default; a thousand elements to a scale are late by 32 steps, and move by sqrt(1000)."""
    constant = torch.zeros(4096)
    constant[::1024] = 1.0

    def after(steps: int, **options: int) -> tuple[float, float]:
        reducer, total = OneBit(exchange=Alone(), start_step=0, **options), torch.zeros(4096)
        for _ in range(steps):
            got = reducer("weight", constant.clone())
            total += got
        late = steps - float(total[0])
        return late, float(got.norm() / constant.norm())

    late, longer = after(100)
    assert late < 12
    assert longer < 12
    late, longer = after(100, block=1024)
    assert late > 20
    assert longer > 20


def test_error_feedback_brings_the_sum_home_and_without_it_does_not():
    """Of a constant input the average of what is sent must approach the input."""
    constant = torch.linspace(-1, 3, 64)

    def error(error_feedback: bool) -> float:
        residuals, total = Residuals(), torch.zeros(64)
        for _ in range(600):
            (got,) = mean(
                Alone(), residuals, [constant.clone()], scale="l1", error_feedback=error_feedback
            )
            total += got
        return float((total / 600 - constant).abs().max())

    assert error(True) < 0.15
    assert error(False) > 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 12}, "block = 12; accepted: a multiple of 8"),
        ({"scale": "max"}, "scale = 'max'; accepted: 'rms' or 'l1'"),
    ],
)
def test_bad_options_are_refused_by_value(options, message):
    with pytest.raises(ValueError, match=message):
        OneBitMean(Alone(), Residuals(), **options)
    with pytest.raises(ValueError, match=message):
        OneBit(exchange=Alone(), **options)
