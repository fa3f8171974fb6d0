"""GaLore, APOLLO and DeMo: exact where nothing is left out, alike on all ranks, and few bytes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: reducers are made of it")

from thread_exchange import Alone, ThreadExchange, run  # noqa: E402
from torch import nn  # noqa: E402

from holdfast.compress import Apollo, DeMo, GaLore  # noqa: E402
from holdfast.compress.demo import Chunks  # noqa: E402

SHAPES = ((24, 60), (50, 20), (8, 3, 5), (40,), (1,))


def start() -> list[nn.Parameter]:
    chance = torch.Generator().manual_seed(5)
    return [nn.Parameter(torch.randn(shape, generator=chance)) for shape in SHAPES]


def give_gradients(parameters: list[nn.Parameter], rank: int, step: int) -> None:
    chance = torch.Generator().manual_seed(1000 * step + rank)
    for p in parameters:
        p.grad = p.detach() - 0.5 + 0.1 * torch.randn(p.shape, generator=chance)


MAKERS = {
    "galore": lambda p, x, **o: GaLore(
        p, 0.05, exchange=x, **{"rank": 6, "refresh": 5, "scale": 1.0, **o}
    ),
    "galore-svd": lambda p, x, **o: GaLore(
        p, 0.05, exchange=x, **{"rank": 6, "refresh": 5, "scale": 1.0, "finder": "svd", **o}
    ),
    "apollo": lambda p, x, **o: Apollo(p, 0.05, exchange=x, **{"rank": 6, "refresh": 5, **o}),
    "apollo-ef": lambda p, x, **o: Apollo(
        p, 0.05, exchange=x, **{"rank": 6, "refresh": 1, "error_feedback": True, **o}
    ),
    "apollo-mini": lambda p, x, **o: Apollo(
        p, 0.05, exchange=x, **{"rank": 1, "scaling": "tensor", "dense": True, "scale": 2.0, **o}
    ),
    "demo": lambda p, x, **o: DeMo(
        p, 0.02, exchange=x, **{"chunk": 16, "top_k": 8, "decay": 0.9, **o}
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_it_learns_and_every_rank_ends_with_the_same_bits(kind):
    def program(exchange: ThreadExchange) -> list[torch.Tensor]:
        parameters = start()
        optimizer = MAKERS[kind](parameters, exchange)
        for step in range(300):
            give_gradients(parameters, exchange.rank, step)
            optimizer.step()
        return [p.detach() for p in parameters]

    ranks = run(3, program)
    for other in ranks[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ranks[0], other, strict=True))
    distance = float(torch.cat([(p - 0.5).flatten() for p in ranks[0]]).abs().mean())
    before = float(torch.cat([(p.detach() - 0.5).flatten() for p in start()]).abs().mean())
    assert distance < 0.45 * before


@pytest.mark.parametrize("kind", ["galore", "apollo"])
def test_matrices_cost_a_projections_bytes(kind):
    def program(exchange: ThreadExchange) -> int:
        p = nn.Parameter(torch.zeros(128, 512))
        optimizer = MAKERS[kind]([p], exchange, rank=4, refresh=100)
        for step in range(2):
            before = exchange.sent
            give_gradients([p], exchange.rank, step)
            optimizer.step()
        return exchange.sent - before

    assert run(2, program) == [4 * 512 * 4] * 2


@pytest.mark.parametrize("finder", ["range", "svd"])
def test_galore_of_a_low_rank_gradient_is_a_projection_that_loses_nothing(finder):
    p = nn.Parameter(torch.zeros(30, 40))
    chance = torch.Generator().manual_seed(0)
    left, right = torch.randn(30, 3, generator=chance), torch.randn(3, 40, generator=chance)
    optimizer = GaLore([p], 0.1, rank=3, finder=finder, exchange=Alone())
    p.grad = left @ right
    optimizer.step()
    basis = optimizer.state[p]["basis"]
    torch.testing.assert_close(basis @ (basis.T @ p.grad), p.grad, rtol=1e-4, atol=1e-4)


def test_without_a_rank_they_are_adam():
    for make in (GaLore, Apollo):
        ours, theirs = start(), start()
        optimizer = make(ours, 0.05, rank=None, weight_decay=0.1, exchange=Alone())
        adam = torch.optim.AdamW(theirs, 0.05, weight_decay=0.1)
        for step in range(10):
            give_gradients(ours, 0, step)
            give_gradients(theirs, 0, step)
            optimizer.step()
            adam.step()
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_apollos_residual_and_what_was_sent_add_up():
    p = nn.Parameter(torch.zeros(24, 60))
    optimizer = Apollo([p], 0.05, rank=6, refresh=1, error_feedback=True, exchange=Alone())
    sent = torch.zeros(24, 60)
    came = torch.zeros(24, 60)
    for step in range(5):
        p.grad = torch.randn(24, 60, generator=torch.Generator().manual_seed(step))
        came += p.grad
        slot = (p, optimizer.param_groups[0], optimizer.state[p])
        basis = optimizer._basis(0, slot)
        old = optimizer.residuals.peek("gradient/0")
        total = p.grad + (0 if old is None else old)
        sent += basis @ (basis.T @ total)
        optimizer.step()
    torch.testing.assert_close(
        sent + optimizer.residuals.peek("gradient/0"), came, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cosine_transform_comes_back(shape):
    chunks = Chunks(shape, 16, torch.device("cpu"))
    tensor = torch.randn(shape)
    components = chunks.forth(tensor)
    torch.testing.assert_close(chunks.back(components), tensor, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(components.norm(), tensor.norm())


def test_demo_keeps_in_its_momentum_what_it_does_not_send():
    p = nn.Parameter(torch.zeros(32, 32))
    optimizer = DeMo([p], 0.1, chunk=16, top_k=256, sign=False, decay=0.9, exchange=Alone())
    p.grad = torch.randn(32, 32)
    optimizer.step()
    assert float(optimizer.residuals.peek("momentum/0").abs().max()) < 1e-5
    torch.testing.assert_close(p.detach(), -0.1 * p.grad, rtol=1e-4, atol=1e-5)
    optimizer = DeMo([p], 0.1, chunk=16, top_k=5, exchange=Alone())
    optimizer.step()
    assert float(optimizer.residuals.peek("momentum/0").norm()) < float(p.grad.norm())


@pytest.mark.parametrize("kind", MAKERS)
def test_resume_goes_on_with_the_same_bits(kind):
    def program(exchange: ThreadExchange) -> bool:
        ours = start()
        optimizer = MAKERS[kind](ours, exchange)
        for step in range(7):
            give_gradients(ours, exchange.rank, step)
            optimizer.step()
        resumed = [nn.Parameter(p.detach().clone()) for p in ours]
        other = MAKERS[kind](resumed, exchange)
        other.load_state_dict(optimizer.state_dict())
        for parameters, one in ((ours, optimizer), (resumed, other)):
            for step in range(7, 14):
                give_gradients(parameters, exchange.rank, step)
                one.step()
        return all(torch.equal(a, b) for a, b in zip(ours, resumed, strict=True))

    assert run(2, program) == [True, True]


@pytest.mark.parametrize("kind", MAKERS)
def test_zero_gradients_move_nothing(kind):
    parameters = start()
    optimizer = MAKERS[kind](parameters, Alone())
    for _ in range(8):
        optimizer.zero_grad()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(parameters, start(), strict=True))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_gradient_that_is_not_finite_shows_on_every_rank(kind):
    def program(exchange: ThreadExchange) -> bool:
        parameters = start()
        optimizer = MAKERS[kind](parameters, exchange)
        give_gradients(parameters, exchange.rank, 0)
        if exchange.rank == 1:
            parameters[0].grad[1, 2] = float("nan")
        optimizer.step()
        kept = optimizer.residuals.state_dict()["kept"].values()
        assert all(bool(t.isfinite().all()) for t in kept)
        return bool(parameters[0].isnan().any())

    assert run(2, program) == [True, True]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("galore", {"rank": 0}, "rank = 0; accepted"),
        ("galore", {"finder": "qr"}, "finder = 'qr'; accepted: 'range' or 'svd'"),
        ("galore", {"refresh": 0}, "refresh = 0; accepted"),
        ("apollo", {"scaling": "row"}, "scaling = 'row'; accepted"),
        ("apollo", {"dense": True, "error_feedback": True}, "error_feedback = True; accepted"),
        ("apollo", {"scale": 0}, "scale = 0; accepted"),
        ("demo", {"chunk": 0}, "chunk = 0; accepted"),
        ("demo", {"top_k": 0}, "top_k = 0; accepted"),
        ("demo", {"decay": 1.0}, "decay = 1.0; accepted"),
    ],
)
def test_bad_options_are_refused_by_value(kind, options, message):
    with pytest.raises(ValueError, match=message):
        MAKERS[kind](start(), Alone(), **options)
