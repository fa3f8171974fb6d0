"""Trainers: methods, fragments and delays through one table, with threads as members."""

from __future__ import annotations

import copy
import io
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from methods import METHODS, H, batch, bits, local_step, model  # noqa: E402
from thread_exchange import Alone, ThreadExchange, run  # noqa: E402
from torch import nn  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import ConfigError, PeerLost  # noqa: E402

STEPS = 4 * H + 2


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def adam(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), 3e-3)


@pytest.mark.parametrize("kind", METHODS)
def test_it_learns_and_what_is_shared_has_the_same_bits_after_every_step(kind):
    # A model is built from the global seed.
    nets = [model() for _ in range(3)]

    def program(exchange: ThreadExchange) -> tuple[list[bytes], list[float], list[torch.Tensor]]:
        net = nets[exchange.rank]
        trainer = METHODS[kind](net, adam(net), exchange)
        trail, losses = [], []
        for step in range(12 * H):
            losses.append(local_step(trainer, net, exchange.rank, step))
            trail.append(bits(trainer))
        trainer.finish()
        assert (
            bits(trainer)
            == torch.cat([p.detach().reshape(-1) for p in net.parameters()]).numpy().tobytes()
        )
        return trail, losses, [p.detach() for p in net.parameters()]

    (trail, losses, ends), *others = run(3, program)
    for other in others:
        assert other[0] == trail
        assert all(torch.equal(a, b) for a, b in zip(ends, other[2], strict=True))
    # An outer step for each fragment and round.
    fragments = len(METHODS[kind](nets[0], adam(nets[0]), Alone()).rounds.parts)
    assert len(set(trail)) >= 11 * fragments
    assert sum(losses[-H:]) < 0.75 * sum(losses[:H])


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("stop", range(2 * H, 3 * H))
def test_a_resumed_run_has_the_bits_of_the_uninterrupted_one(kind, stop):
    nets = [model() for _ in range(2)]
    again = [model() for _ in range(2)]
    lock = threading.Lock()

    def program(exchange: ThreadExchange) -> None:
        rank = exchange.rank
        net, inner = nets[rank], adam(nets[rank])
        trainer = METHODS[kind](net, inner, exchange)
        for step in range(stop):
            local_step(trainer, net, rank, step)
        file = io.BytesIO()
        with lock:  # what torch.save pickles is by reference
            torch.save([net.state_dict(), inner.state_dict(), trainer.state_dict()], file)
        saved = torch.load(io.BytesIO(file.getvalue()))
        other, other_inner = again[rank], adam(again[rank])
        resumed = METHODS[kind](other, other_inner, exchange)
        for thing, state in zip((other, other_inner, resumed), saved, strict=True):
            thing.load_state_dict(state)
        for step in range(stop, STEPS):
            local_step(trainer, net, rank, step)
        for step in range(stop, STEPS):
            local_step(resumed, other, rank, step)
        assert bits(resumed) == bits(trainer)
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)

    run(2, program)


def test_a_state_is_saved_without_touching_the_run():
    def trail(save: bool) -> bytes:
        net = model()
        trainer = METHODS["eager, 2, 4"](net, adam(net), Alone())
        for step in range(STEPS):
            local_step(trainer, net, 0, step)
            if save:
                trainer.state_dict()
        return bits(trainer)

    assert trail(True) == trail(False)


# ---- parity --------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 3, 0.7])
def test_one_member_with_rounds_of_one_step_is_the_inner_optimiser_bit_for_bit(samples):
    ours, theirs = model(), model()
    trainer = ft.DiLoCo(ours, adam(ours), Alone(), inner_steps=1, outer=ft.OuterSGD())
    inner = adam(theirs)
    for step in range(30):
        x, y = batch(0, step)
        for net, act in ((ours, lambda: trainer.step(samples)), (theirs, inner.step)):
            net.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            act()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def trails_of(kinds, dtype=torch.float32):
    """What is shared after each step, by method, of three members that count differently."""
    nets = {kind: [model(dtype) for _ in range(3)] for kind in kinds}

    def program(exchange: ThreadExchange) -> dict[str, list[bytes]]:
        found = {}
        for kind, make in kinds.items():
            net = nets[kind][exchange.rank]
            trainer = make(net, adam(net), exchange)
            found[kind] = []
            for step in range(STEPS):
                local_step(trainer, net, exchange.rank, step)
                found[kind].append(bits(trainer))
        return found

    return run(3, program)[0]


def test_streaming_with_one_fragment_and_no_delay_is_diloco_bit_for_bit():
    found = trails_of(
        {
            "streaming": lambda m, i, g: ft.StreamingDiLoCo(m, i, g, inner_steps=H, fragments=1),
            "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H),
        }
    )
    assert found["streaming"] == found["diloco"]


def test_local_sgd_is_diloco_whose_outer_step_is_the_average():
    found = trails_of(
        {
            "local": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H),
            "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, outer=ft.OuterSGD()),
        }
    )
    assert found["local"] == found["diloco"]


def test_co2_without_penalty_and_clip_is_delayed_diloco_with_the_heavy_ball():
    found = trails_of(
        {
            "co2": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, penalty=False, clip=None),
            "delayed": lambda m, i, g: ft.AsyncDiLoCo(
                m, i, g, inner_steps=H, mode="delayed", outer=ft.OuterSGD(1.0, 0.5)
            ),
        }
    )
    assert found["co2"] == found["delayed"]


def test_eager_with_one_member_is_diloco():
    """Its own part is all of the mean: the paper's equation 4 with M = 1."""
    ends = []
    for make in (
        lambda m, i: ft.AsyncDiLoCo(m, i, Alone(), inner_steps=H, mode="eager"),
        lambda m, i: ft.DiLoCo(m, i, Alone(), inner_steps=H),
    ):
        net = model(torch.float64)
        trainer = make(net, torch.optim.SGD(net.parameters(), 0.05))
        for step in range(8 * H):
            local_step(trainer, net, 0, step)
        ends.append([p.detach() for p in net.parameters()])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_eager_is_the_papers_update_of_every_member():
    """Each member's outer gradient is its own of now and the others' of a round before."""
    members, rate, beta = 3, 0.7, 0.5
    nets = [model(torch.float64) for _ in range(members)]
    papers = [model(torch.float64) for _ in range(members)]

    def flat(net: nn.Module) -> torch.Tensor:
        return torch.cat([p.detach().reshape(-1) for p in net.parameters()])

    where = [flat(net) for net in papers]
    momenta = [torch.zeros_like(w) for w in where]
    before = [torch.zeros_like(w) for w in where]
    for turn in range(5):
        progress = []
        for rank, net in enumerate(papers):
            inner = torch.optim.SGD(net.parameters(), 0.05)
            for step in range(turn * H, (turn + 1) * H):
                x, y = batch(rank, step, torch.float64)
                net.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                inner.step()
            progress.append(where[rank] - flat(net))
        mean = sum(before) / members
        for rank, net in enumerate(papers):
            g = mean + (progress[rank] - before[rank]) / members
            momenta[rank] = beta * momenta[rank] + g
            where[rank] = where[rank] - rate * (g + beta * momenta[rank])
            nn.utils.vector_to_parameters(where[rank].clone(), net.parameters())
        before = progress

    def program(exchange: ThreadExchange) -> torch.Tensor:
        net = nets[exchange.rank]
        inner = torch.optim.SGD(net.parameters(), 0.05)
        outer = ft.OuterNesterov(rate, beta)
        trainer = ft.AsyncDiLoCo(net, inner, exchange, inner_steps=H, outer=outer)
        for step in range(5 * H):
            local_step(trainer, net, exchange.rank, step)
        return flat(net)

    for ours, theirs in zip(run(members, program), where, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_error_feedback_sends_in_time_what_a_round_leaves_out():
    """With all that is sent, and what is owed, nothing of a constant progress is lost."""
    net = nn.Linear(60, 60, bias=False)
    trainer = ft.SparseLoCo(
        net, torch.optim.SGD(net.parameters(), 1.0), Alone(), inner_steps=1, ratio=0.01, decay=1.0
    )
    start = net.weight.detach().clone()
    for _ in range(400):
        net.weight.grad = torch.full_like(net.weight, 0.01)
        trainer.step()
    moved = (start - net.weight.detach()).mean()
    assert 3.5 < float(moved) < 4.1


def test_a_round_without_samples_leaves_the_residual_as_it_is():
    net = model()
    trainer = ft.SparseLoCo(net, adam(net), Alone(), inner_steps=H, ratio=0.01)
    for step in range(2 * H):
        local_step(trainer, net, 0, step)
    owed = trainer._own["residual/0"].clone()
    assert owed.any()
    for _ in range(H):
        trainer.step(samples=0)
    assert torch.equal(trainer._own["residual/0"], owed)
    for step in range(H):
        local_step(trainer, net, 0, step)
    assert not torch.equal(trainer._own["residual/0"], owed)


def test_co2_measures_its_staleness_and_a_clip_that_is_set_to_act_acts():
    def acted(**more):
        net = model()
        trainer = ft.CO2(net, adam(net), Alone(), inner_steps=H, momentum=0.9, **more)
        found = []
        for step in range(12 * H):
            local_step(trainer, net, 0, step)
            if trainer.at_boundary and trainer.acted is not None:
                found.append(trainer.acted)
        return found

    free = acted(clip=None)
    assert len({one.gap for one in free}) > 5
    assert max(one.gap for one in free) > 1.2
    clipped = acted(clip=0.5)
    assert all(one.momentum > one.limit for one in clipped)
    bare = acted(penalty=False, clip=None)
    assert {one.gap for one in bare} == {1.0}


class Notes(Alone):
    """Notes when an exchange begins and when it is waited for; the other member is away."""

    size = 2
    members = (0, 1)

    def __init__(self) -> None:
        self.notes: list[str] = []

    def regroup(self, members) -> None:
        pass

    def gather(self, rows, own):
        rows[0].copy_(own)
        return self.sum(own)

    def sum(self, tensor):
        if tensor.is_floating_point():
            self.notes.append("begin")
        return _Noted(self.notes) if tensor.is_floating_point() else super().sum(tensor)


class _Noted:
    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def wait(self) -> None:
        self._notes.append("end")


def test_an_exchange_runs_beside_the_local_steps_that_it_has():
    net, exchange = model(), Notes()
    trainer = ft.StreamingDiLoCo(net, adam(net), exchange, inner_steps=H, fragments=3, delay=3)
    for step in range(2 * H):
        local_step(trainer, net, 0, step)
        exchange.notes.append(f"step {step + 1}")
    assert exchange.notes == [
        *("step 1", "begin", "step 2", "step 3", "begin", "step 4", "end", "step 5"),
        *("begin", "step 6", "end", "step 7", "begin", "step 8", "end", "step 9"),
        *("begin", "step 10", "end", "step 11", "begin", "step 12"),
    ]


@pytest.mark.parametrize("kind", ["eager, 1, 6", "delayed, 1, 1", "co2", "streaming, 3, 0"])
def test_a_rounds_boundary_is_where_nothing_is_under_way(kind):
    net = model()
    trainer = METHODS[kind](net, adam(net), Notes())
    found = []
    whole = trainer._pass_boundary

    def watched(state, inside=False):
        found.append((trainer.steps, len(trainer._flights.under_way)))
        return whole(state, inside)

    trainer._pass_boundary = watched
    trainer.advance(each_round=True)
    for step in range(4 * H):
        local_step(trainer, net, 0, step)
    assert found == [(steps, 0) for steps in range(0, 4 * H + 1, H)]


def test_parameters_of_bfloat16_share_in_float32_and_rounding_is_no_progress():
    net = model(torch.bfloat16)
    trainer = ft.DiLoCo(net, torch.optim.SGD(net.parameters(), 0.0), Alone(), inner_steps=H)
    # As after an outer step: what is shared has more bits than the model.
    for tensor in trainer.shared.values():
        if tensor.dtype == torch.float32:
            tensor.add_(1e-5)
    trainer._put(0, trainer._outer(0))
    before = bits(trainer)
    for step in range(3 * H):
        local_step(trainer, net, 0, step)
    assert trainer.last is not None
    assert trainer.last.length == 0
    assert {p.dtype for p in trainer.shared_parameters().values()} == {torch.float32}
    trainer.shared["momentum/0"].zero_()
    assert len(before) == len(bits(trainer))


def test_a_mapping_of_names_is_a_model_too():
    net = model()
    named = {"a": net[0].weight, "b": net[4].bias}
    trainer = ft.DiLoCo(named, adam(net), Alone(), inner_steps=1, outer=ft.OuterSGD())
    start = net[0].weight.detach().clone()
    local_step(trainer, net, 0, 0)
    shared = trainer.shared_parameters()
    assert list(shared) == ["a", "b"]
    assert torch.equal(shared["a"], net[0].weight)
    assert not torch.equal(shared["a"], start)


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METHODS)
def test_a_member_whose_progress_is_not_finite_counts_for_nothing_and_is_named(kind):
    nets = [model() for _ in range(3)]

    def program(exchange: ThreadExchange) -> tuple[list[bytes], set[tuple[int, ...]]]:
        net = nets[exchange.rank]
        trainer = METHODS[kind](net, adam(net), exchange)
        trail, named = [], set()
        for step in range(5 * H):
            local_step(trainer, net, exchange.rank, step)
            trail.append(bits(trainer))
            if trainer.last is not None:
                named.add(trainer.last.not_finite)
            if step == H + 2 and exchange.rank == 1:
                with torch.no_grad():
                    for p in net.parameters():
                        p.view(-1)[0] = float("nan")
        assert all(bool(p.isfinite().all()) for p in net.parameters())
        return trail, named

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ranks = run(3, program)
    assert any("rank 1 is not finite" in str(one.message) for one in told)
    for trail, named in ranks:
        assert trail == ranks[0][0]
        assert named == {(), (1,)}
        assert torch.frombuffer(bytearray(trail[-1]), dtype=torch.float32).isfinite().all()


def refused_by_all(words, change=None, steps=H):
    nets = [model() for _ in range(3)]
    if change is not None:
        change(nets[1])

    def program(exchange: ThreadExchange) -> str:
        net = nets[exchange.rank]
        own = H if exchange.rank else steps
        trainer = ft.DiLoCo(net, adam(net), exchange, inner_steps=own)
        with pytest.raises(ConfigError) as refused:
            local_step(trainer, net, exchange.rank, 0)
        return str(refused.value)

    for said in run(3, program):
        assert all(word in said for word in words), said


def test_models_and_trainers_that_differ_are_told_with_their_ranks():
    def other_values(net):
        with torch.no_grad():
            net[2].bias[3] += 1e-6

    def other_names(net):
        net[2].bias.requires_grad = False

    refused_by_all(["parameter values of rank 1 differs", "one seed"], other_values)
    refused_by_all(["shapes or dtypes of parameters) of rank 1 differs"], other_names)
    refused_by_all(["trainer (method, rounds or codec) of rank 0 differs"], steps=2 * H)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda m, i: ft.StreamingDiLoCo(m, i, Alone(), inner_steps=50, fragments=3),
            ["inner_steps = 50 with 3 fragments", "48 or 51"],
        ),
        (
            lambda m, i: ft.StreamingDiLoCo(m, i, Alone(), inner_steps=6, delay=6),
            ["delay = 6", "0 to 5", "AsyncDiLoCo"],
        ),
        (lambda m, i: ft.StreamingDiLoCo(m, i, Alone(), mix=1.5), ["mix = 1.5", "0 to 1"]),
        (lambda m, i: ft.StreamingDiLoCo(m, i, Alone(), fragments=5), ["3 layers", "1 to 3"]),
        (
            lambda m, i: ft.AsyncDiLoCo(m, i, Alone(), inner_steps=6, delay=7),
            ["delay = 7", "1 to inner_steps = 6"],
        ),
        (lambda m, i: ft.AsyncDiLoCo(m, i, Alone(), mode="soon"), ["mode = 'soon'", "'eager'"]),
        (
            lambda m, i: ft.AsyncDiLoCo(m, i, Alone(), outer=ft.OuterAdam()),
            ["OuterAdam", "eager", "OuterSGD and OuterNesterov", "mode='delayed'"],
        ),
        (lambda m, i: ft.CO2(m, i, Alone(), clip=0), ["clip = 0", "above 0, or None"]),
        (lambda m, i: ft.SparseLoCo(m, i, Alone(), ratio=0), ["ratio = 0", "above 0, to 1"]),
        (lambda m, i: ft.DiLoCo(m, i, Alone(), codec="int5"), ["int5"]),
        (lambda m, i: ft.DiLoCo(m, i), ["DiLoCo without a group", "init_process_group()"]),
        (lambda m, i: ft.DiLoCo(m, i, "gloo"), ["group = a str", "ProcessGroup"]),
        (
            lambda m, i: ft.DiLoCo({"n": torch.ones(3, dtype=torch.int64)}, i, Alone()),
            ["parameter 'n' is of torch.int64", "floating parameters"],
        ),
        (
            lambda m, i: ft.DiLoCo(m.requires_grad_(False), i, Alone()),
            ["no parameter requires a gradient"],
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_can(make, words):
    net = model()
    with pytest.raises(ConfigError) as refused:
        make(net, adam(net))
    assert all(word in str(refused.value) for word in words), str(refused.value)


@pytest.mark.parametrize("samples", [-1, float("nan"), float("inf")])
def test_samples_are_a_number(samples):
    net = model()
    trainer = ft.DiLoCo(net, adam(net), Alone())
    with pytest.raises(ConfigError, match="samples = "):
        trainer.step(samples)
    assert trainer.steps == 0


def test_the_state_of_another_trainer_is_refused_and_both_are_named():
    net = model()
    state = ft.StreamingDiLoCo(net, adam(net), Alone(), inner_steps=6, delay=2).state_dict()
    for other in (
        ft.DiLoCo(net, adam(net), Alone(), inner_steps=6),
        ft.StreamingDiLoCo(net, adam(net), Alone(), inner_steps=8, delay=2),
        ft.StreamingDiLoCo(net, adam(net), Alone(), inner_steps=6, fragments=3, delay=2),
    ):
        before = copy.deepcopy(other.state_dict())
        with pytest.raises(ConfigError) as refused:
            other.load_state_dict(state)
        said = str(refused.value)
        assert "the state is of StreamingDiLoCo(inner_steps=6, fragments=2, delay=2" in said
        assert f"this trainer is {other.method}(inner_steps={other.rounds.inner_steps}" in said
        assert torch.equal(before["shared"]["outer/0"], other.shared["outer/0"])
    with pytest.raises(ConfigError, match="state of a trainer"):
        other.load_state_dict(net.state_dict())


class _Failing:
    def wait(self) -> None:
        raise PeerLost("rank 1 was lost", ranks=(1,))


class Fails(Alone):
    """The second exchange fails, as where every loss is an error."""

    size = 2
    members = (0, 1)

    def __init__(self) -> None:
        self.ops = 0

    def regroup(self, members) -> None:
        pass

    def gather(self, rows, own):
        rows[0].copy_(own)
        self.ops += own.dtype == torch.uint8
        return _Failing() if self.ops == 2 else super().sum(rows)

    def sum(self, tensor):
        self.ops += tensor.is_floating_point()
        fails = self.ops == 2 and tensor.is_floating_point()
        return _Failing() if fails else super().sum(tensor)


AVERAGING = {
    "local sgd": lambda m, i, g: ft.LocalSGD(m, i, g, inner_steps=H),
    "diloco": lambda m, i, g: ft.DiLoCo(m, i, g, inner_steps=H, outer=ft.OuterSGD()),
    "streaming": lambda m, i, g: ft.StreamingDiLoCo(
        m, i, g, inner_steps=H, fragments=3, delay=4, mix=1, outer=ft.OuterSGD()
    ),
    "sparse": lambda m, i, g: ft.SparseLoCo(m, i, g, inner_steps=H, ratio=1, decay=1),
    "eager": lambda m, i, g: ft.AsyncDiLoCo(m, i, g, inner_steps=H, outer=ft.OuterSGD()),
    "delayed": lambda m, i, g: ft.AsyncDiLoCo(
        m, i, g, inner_steps=H, fragments=3, delay=3, mode="delayed", outer=ft.OuterSGD()
    ),
    "co2": lambda m, i, g: ft.CO2(m, i, g, inner_steps=H, momentum=0, penalty=False, clip=None),
}


@pytest.mark.parametrize("kind", AVERAGING)
def test_an_exchange_that_fails_costs_no_local_step(kind):
    """What it had goes into the next one: at the end all that was done is in what is shared."""
    net = nn.Sequential(*[nn.Linear(4, 4, bias=False) for _ in range(3)]).double()
    for p in net.parameters():
        nn.init.zeros_(p)
    trainer = AVERAGING[kind](net, torch.optim.SGD(net.parameters(), 1.0), Fails())
    lost = 0
    for _ in range(5 * H + 1):
        for p in net.parameters():
            p.grad = torch.full_like(p, 0.125)
        try:
            trainer.step()
        except PeerLost:
            lost += 1
    trainer.finish()
    assert lost == 1
    assert trainer.steps == 5 * H + 1
    for p in net.parameters():
        want = torch.full_like(p, -0.125 * trainer.steps)
        torch.testing.assert_close(p.detach(), want, rtol=1e-14, atol=0)
