"""PowerSGD: exact where it can be, conserving where it cannot, and the same on every rank."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone, Meeting, ThreadExchange, run  # noqa: E402

from holdfast.compress import PowerSGD  # noqa: E402
from holdfast.compress.orthogonal import orthonormalise  # noqa: E402


def gradient(rank: int, step: int = 0, shape: tuple[int, ...] = (48, 40)) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(97 * step + rank))


def test_importing_the_package_does_not_import_torch():
    code = "import sys, holdfast; holdfast.compress; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_a_matrix_of_that_rank_is_averaged_exactly(rank):
    left = gradient(7, shape=(64, rank))

    def program(exchange: ThreadExchange) -> torch.Tensor:
        mine = left @ gradient(exchange.rank, shape=(rank, 56))
        return PowerSGD(rank, exchange=exchange)("w", mine.clone())

    want = sum(left @ gradient(r, shape=(rank, 56)) for r in range(3)) / 3
    for got in run(3, program):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_sent_and_residual_add_up_to_what_came_in():
    def program(exchange: ThreadExchange) -> tuple[torch.Tensor, torch.Tensor]:
        reducer = PowerSGD(2, exchange=exchange)
        total, sent = torch.zeros(48, 40), torch.zeros(48, 40)
        for step in range(5):
            mine = gradient(exchange.rank, step)
            total += mine
            sent += reducer("w", mine)
        return total - reducer.residuals.peek("w"), sent

    ranks = run(3, program)
    mean = sum(came for came, _ in ranks) / 3
    torch.testing.assert_close(mean, ranks[0][1], rtol=1e-4, atol=1e-4)


def test_the_residual_is_what_this_ranks_own_product_leaves_out():
    reducer = PowerSGD(4, exchange=Alone())
    first, second = gradient(0), gradient(1)
    sent = reducer("w", first.clone())
    torch.testing.assert_close(reducer.residuals.peek("w") + sent, first)
    old = reducer.residuals.peek("w").clone()
    sent = reducer("w", second.clone())
    torch.testing.assert_close(reducer.residuals.peek("w") + sent, second + old)


def test_every_rank_has_the_same_bits_and_the_same_factors():
    def program(exchange: ThreadExchange) -> tuple[torch.Tensor, torch.Tensor]:
        reducer = PowerSGD(3, exchange=exchange)
        for step in range(3):
            got = reducer("w", gradient(exchange.rank, step))
        return got, reducer.shared.state_dict()["factors"]["w"]

    ranks = run(4, program)
    for got, factor in ranks[1:]:
        assert torch.equal(got, ranks[0][0])
        assert torch.equal(factor, ranks[0][1])


def test_a_large_matrix_takes_a_two_hundredth_of_the_bytes():
    def program(exchange: ThreadExchange) -> int:
        PowerSGD(4, exchange=exchange)("w", torch.randn(2048, 2048))
        return exchange.sent

    assert max(run(2, program)) * 200 <= 2048 * 2048 * 4


def test_vectors_and_small_matrices_are_averaged_as_they_are_in_the_same_op():
    def program(exchange: ThreadExchange) -> tuple[torch.Tensor, torch.Tensor, int]:
        reducer = PowerSGD(4, exchange=exchange)
        v, small, big = torch.full((7,), exchange.rank + 1.0), gradient(1, 0, (4, 3)), gradient(2)
        ops = [p.wait() for p in reducer.reduction([("v", v), ("big", big), ("small", small)])]
        return v, small, len(ops)

    for v, small, ops in run(2, program):
        assert v.tolist() == [1.5] * 7
        torch.testing.assert_close(small, gradient(1, 0, (4, 3)))
        assert ops == 2


def run_steps(reducer: PowerSGD, steps: range) -> list[torch.Tensor]:
    return [reducer("w", gradient(0, step)) for step in steps]


@pytest.mark.parametrize("warm_start", [True, False])
def test_resume_goes_on_with_the_same_bits(warm_start, tmp_path):
    straight = PowerSGD(2, exchange=Alone(), warm_start=warm_start)
    run_steps(straight, range(3))
    torch.save(straight.state_dict(), tmp_path / "state")
    resumed = PowerSGD(2, exchange=Alone(), warm_start=warm_start)
    resumed.load_state_dict(torch.load(tmp_path / "state"))
    for one, other in zip(
        run_steps(straight, range(3, 6)), run_steps(resumed, range(3, 6)), strict=True
    ):
        assert torch.equal(one, other)


def test_the_last_factors_make_a_better_start_than_random_ones():
    left, right = gradient(1, shape=(48, 8)), gradient(2, shape=(8, 40))
    scales = torch.tensor([8.0, 7, 6, 5, 4, 3, 2, 1])

    def error(warm_start: bool) -> float:
        reducer = PowerSGD(
            4, exchange=Alone(), warm_start=warm_start, error_feedback=False, min_ratio=1
        )
        matrix = (left * scales) @ right
        for _ in range(8):
            got = reducer("w", matrix.clone())
        return float((got - matrix).norm() / matrix.norm())

    assert error(True) < 0.9 * error(False)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_gives_nan_everywhere_and_spoils_no_state(bad):
    def program(exchange: ThreadExchange) -> tuple[bool, bool, bool]:
        reducer = PowerSGD(2, exchange=exchange)
        reducer("w", gradient(exchange.rank))
        kept = reducer.residuals.peek("w").clone()
        mine = gradient(exchange.rank, 1)
        if exchange.rank == 1:
            mine[3, 4] = bad
        spoiled = bool(reducer("w", mine).isnan().all())
        same = torch.equal(kept, reducer.residuals.peek("w"))
        return spoiled, same, bool(reducer("w", gradient(exchange.rank, 2)).isfinite().all())

    assert run(3, program) == [(True, True, True)] * 3


def test_zero_gradients_give_zero_and_the_next_ones_get_through():
    reducer = PowerSGD(4, exchange=Alone())
    for _ in range(3):
        assert torch.equal(reducer("w", torch.zeros(48, 40)), torch.zeros(48, 40))
    assert float(reducer("w", gradient(0)).norm()) > 1.0


@pytest.mark.parametrize("op", [1, 2])
def test_an_op_that_fails_leaves_the_residual_as_it_was(op):
    exchange = ThreadExchange(Meeting(1), 0)
    reducer = PowerSGD(2, exchange=exchange)
    reducer("w", gradient(0))
    kept = reducer.residuals.peek("w").clone()
    exchange.fail_at = 2 + op
    with pytest.raises(ConnectionError):
        reducer("w", gradient(1))
    assert torch.equal(kept, reducer.residuals.peek("w"))
    reducer("w", gradient(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_reduced_in_a_wide_enough_one(dtype):
    left, right = gradient(0, shape=(400, 3)), gradient(1, shape=(3, 400))
    low_rank = (left.double() @ right.double()).to(dtype)
    got = PowerSGD(8, exchange=Alone())("w", low_rank.clone())
    assert got.dtype == dtype
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float64: 1e-10}[dtype]
    torch.testing.assert_close(got, low_rank, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(1, 300), (300, 1), (3, 5, 7, 11), (0, 4), (1,), ()])
def test_any_shape_is_averaged(shape):
    tensor = gradient(0, shape=shape)
    got = PowerSGD(1, exchange=Alone(), min_ratio=1)("w", tensor.clone())
    assert got.shape == tensor.shape
    assert bool(got.isfinite().all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank = 0; accepted"),
        ({"rank": 2.5}, "rank = 2.5; accepted"),
        ({"min_ratio": 0.5}, "min_ratio = 0.5; accepted"),
        ({"start_step": -1}, "start_step = -1; accepted"),
        ({"group": 3}, "group = 3; accepted: None beside exchange"),
    ],
)
def test_bad_options_are_refused_by_value(options, message):
    with pytest.raises(ValueError, match=message):
        PowerSGD(**{"exchange": Alone(), **options})


def test_columns_are_made_orthonormal_whatever_their_condition():
    x = gradient(0, shape=(200, 6))
    dependent = torch.cat([x, x[:, :2]], dim=1)
    for columns in (x, x * 10.0 ** -torch.arange(6), dependent, torch.zeros(200, 4), x * 1e-25):
        basis = orthonormalise(columns)
        unit = torch.eye(columns.shape[1], dtype=torch.float64)
        torch.testing.assert_close(basis.T @ basis, unit, rtol=0, atol=1e-12)
        kept = basis @ (basis.T @ columns.double())
        assert float((kept - columns).norm()) <= 1e-12 * float(columns.double().norm())


def test_a_flat_gradient_is_reduced_as_a_square_matrix():
    flat = gradient(0, shape=(4096,))
    reducer = PowerSGD(64, exchange=Alone(), min_ratio=1)
    reducer.in_place("layer")(flat)
    assert torch.allclose(flat, gradient(0, shape=(4096,)))
    reducer = PowerSGD(2, exchange=Alone())
    reducer.in_place("layer")(flat)
    assert reducer.residuals.peek("layer").shape == (64, 64)
    assert math.isfinite(float(flat.sum()))
