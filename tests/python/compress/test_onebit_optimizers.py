"""The 1-bit optimisers: Adam at first, alike on all ranks always, and never NaN."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone, ThreadExchange, run  # noqa: E402
from torch import nn  # noqa: E402

from holdfast.compress import OneBitAdam, OneBitLamb, ZeroOneAdam  # noqa: E402
from holdfast.compress.zero_one_adam import is_exchange_step, is_variance_step  # noqa: E402


def start() -> list[nn.Parameter]:
    chance = torch.Generator().manual_seed(5)
    return [nn.Parameter(torch.randn(s, generator=chance)) for s in ((6, 40), (40,), (3,))]


def give_gradients(parameters: list[nn.Parameter], rank: int, step: int) -> None:
    """Of a quadratic bowl with noise: each rank sees another one."""
    chance = torch.Generator().manual_seed(1000 * step + rank)
    for p in parameters:
        noise = torch.randn(p.shape, generator=chance)
        p.grad = (p.detach() - 0.5 + 0.1 * noise).to(p.dtype)


MAKERS = {
    "adam": lambda p, x, **o: OneBitAdam(p, 0.02, exchange=x, block=64, **{"freeze_step": 10, **o}),
    "lamb": lambda p, x, **o: OneBitLamb(p, 0.02, exchange=x, block=64, **{"freeze_step": 10, **o}),
    "zero-one": lambda p, x, **o: ZeroOneAdam(
        p,
        0.02,
        exchange=x,
        block=64,
        **{"freeze_step": 10, "local_start": 20, "max_interval": 4, **o},
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_it_learns_and_every_rank_ends_with_the_same_bits(kind):
    def program(exchange: ThreadExchange) -> list[torch.Tensor]:
        parameters = start()
        optimizer = MAKERS[kind](parameters, exchange, scale="l1")
        for step in range(200):
            give_gradients(parameters, exchange.rank, step)
            optimizer.step()
        if kind == "zero-one":
            optimizer.synchronise()
        return [p.detach() for p in parameters]

    ranks = run(3, program)
    for other in ranks[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ranks[0], other, strict=True))
    distance = float(torch.cat([(p - 0.5).flatten() for p in ranks[0]]).abs().mean())
    before = float(torch.cat([(p.detach() - 0.5).flatten() for p in start()]).abs().mean())
    assert distance < 0.25 * before


def test_before_the_freeze_it_is_adam():
    ours, theirs = start(), start()
    optimizer = OneBitAdam(ours, 0.02, freeze_step=100, weight_decay=0.1, exchange=Alone())
    adam = torch.optim.AdamW(theirs, 0.02, weight_decay=0.1)
    for step in range(20):
        give_gradients(ours, 0, step)
        give_gradients(theirs, 0, step)
        optimizer.step()
        adam.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", MAKERS)
def test_gradients_that_are_always_zero_give_no_nan(kind):
    parameters = start()
    kept = parameters[0].detach()[:3].clone()
    optimizer = MAKERS[kind](parameters, Alone())
    for step in range(60):
        give_gradients(parameters, 0, step)
        parameters[0].grad[:3] = 0
        parameters[1].grad.zero_()
        parameters[2].grad = None
        optimizer.step()
    assert all(bool(p.isfinite().all()) for p in parameters)
    assert torch.equal(parameters[1], start()[1])
    assert float((parameters[0].detach()[:3] - kept).abs().max()) < 2.0


@pytest.mark.parametrize("kind", ["adam", "lamb"])
def test_a_gradient_that_is_not_finite_shows_on_every_rank_and_spoils_no_residual(kind):
    def program(exchange: ThreadExchange) -> bool:
        parameters = start()
        optimizer = MAKERS[kind](parameters, exchange)
        for step in range(15):
            give_gradients(parameters, exchange.rank, step)
            if step == 14 and exchange.rank == 1:
                parameters[0].grad[1, 2] = float("nan")
            optimizer.step()
        kept = optimizer.residuals.state_dict()["kept"].values()
        assert all(bool(t.isfinite().all()) for t in kept)
        return bool(parameters[0].isnan().any())

    assert run(2, program) == [True, True]


def test_the_variance_changes_ever_more_rarely():
    steps = [s for s in range(1, 40) if is_variance_step(s, 30, 3)]
    assert steps == [1, 2, 3, 4, 6, 8, 10, 14, 18, 22, 30]


def test_exchanges_come_ever_more_rarely():
    steps = [s for s in range(1, 33) if is_exchange_step(s, 6, 8, 4)]
    assert steps == [*range(1, 7), 8, 10, 12, 14, 16, 20, 24, 28, 32]


@pytest.mark.parametrize("kind", MAKERS)
def test_masked_elements_stay_where_they_are(kind):
    parameters = start()
    mask = torch.ones(6, 40)
    mask[2] = 0
    groups = [{"params": parameters[:1], "masks": [mask]}, {"params": parameters[1:]}]
    optimizer = MAKERS[kind](groups, Alone())
    for step in range(40):
        give_gradients(parameters, 0, step)
        optimizer.step()
    assert torch.equal(parameters[0][2], start()[0][2])
    assert not torch.equal(parameters[0][1], start()[0][1])


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resume_goes_on_with_the_same_bits(kind, dtype, tmp_path):
    def program(exchange: ThreadExchange) -> bool:
        ours = [nn.Parameter(p.detach().to(dtype)) for p in start()]
        optimizer = MAKERS[kind](ours, exchange)
        for step in range(26):
            give_gradients(ours, exchange.rank, step)
            optimizer.step()
        path = tmp_path / str(exchange.rank)
        torch.save([[p.detach() for p in ours], optimizer.state_dict()], path)
        values, state = torch.load(path)
        resumed = [nn.Parameter(v) for v in values]
        other = MAKERS[kind](resumed, exchange)
        other.load_state_dict(state)
        for step in range(26, 40):
            give_gradients(ours, exchange.rank, step)
            optimizer.step()
        for step in range(26, 40):
            give_gradients(resumed, exchange.rank, step)
            other.step()
        return all(torch.equal(a, b) for a, b in zip(ours, resumed, strict=True))

    assert run(2, program) == [True, True]


@pytest.mark.parametrize("kind", MAKERS)
def test_each_group_has_its_own_options(kind):
    parameters = start()
    groups = [{"params": parameters[:1], "lr": 0.0}, {"params": parameters[1:]}]
    optimizer = MAKERS[kind](groups, Alone())
    for step in range(15):
        give_gradients(parameters, 0, step)
        optimizer.step()
    assert torch.equal(parameters[0], start()[0])
    assert not torch.equal(parameters[1], start()[1])


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("adam", {"freeze_step": 0}, "freeze_step = 0; accepted"),
        ("adam", {"betas": (0.9, 1.0)}, r"betas = \(0.9, 1.0\); accepted"),
        ("adam", {"eps": 0.0}, "eps = 0.0; accepted"),
        ("adam", {"variance_floor": 2}, "variance_floor = 2; accepted"),
        ("adam", {"scale": "max"}, "scale = 'max'; accepted"),
        ("lamb", {"factor_clip": (2.0, 1.0)}, "factor_clip"),
        ("zero-one", {"local_start": 3}, "local_start = 3; accepted"),
        ("zero-one", {"max_interval": 0}, "max_interval = 0; accepted"),
    ],
)
def test_bad_options_are_refused_by_value(kind, options, message):
    with pytest.raises(ValueError, match=message):
        MAKERS[kind](start(), Alone(), **options)


def test_a_mask_of_another_shape_is_refused():
    groups = [{"params": start(), "masks": [torch.ones(3), None, None]}]
    optimizer = OneBitAdam(groups, freeze_step=1, exchange=Alone())
    give_gradients(groups[0]["params"], 0, 0)
    with pytest.raises(ValueError, match=r"shape of a mask = \(3,\)"):
        optimizer.step()
