"""Trainers that choose their codec: members agree, changes are told, a resumed run goes on."""

from __future__ import annotations

import io
import threading

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from emulated_path import LongPath, Unavailable  # noqa: E402
from methods import H, bits, local_step, model  # noqa: E402
from ranks import all_end_well, start_rank  # noqa: E402
from test_outer_ranks import found_by  # noqa: E402
from thread_exchange import Alone, ThreadExchange, run  # noqa: E402

from holdfast import ft  # noqa: E402
from holdfast.errors import ConfigError  # noqa: E402
from holdfast.ft.outer.auto_exchange import AutoExchange  # noqa: E402
from holdfast.ft.outer.codec_choice import State  # noqa: E402
from holdfast.ft.outer.coded import CodedExchange  # noqa: E402

AUTO = "auto(bf16,int8,int4)"
# From the smallest frames to the largest.
ORDER = ("int4", "int8", "bf16")
SLOW_MBIT, FAST_MBIT = 12, 400
LIMIT_S = 120


def adam(net):
    return torch.optim.AdamW(net.parameters(), 3e-3)


def auto_of(trainer: ft.Trainer) -> AutoExchange:
    auto = trainer._seat.auto
    assert auto is not None
    return auto


def hold(trainer: ft.Trainer, index: int) -> None:
    """Have the trainer choose a codec, and stay with it whatever is measured."""
    auto_of(trainer)._record.write(State(index, since=10**9, before=2))


@pytest.mark.parametrize("backend", ["gloo", "holdfast"])
def test_members_change_together_when_a_paths_rate_does(backend, tmp_path):
    try:
        with LongPath() as path:
            path.set("both", delay_ms=1, mbit=SLOW_MBIT, queue_ms=100)
            ranks = [
                start_rank(
                    *("auto_ranks", "over_a_path", rank, 2, tmp_path),
                    {
                        "BACKEND": backend,
                        "GLOO_SOCKET_IFNAME": "wan",
                        "HOLDFAST_TRANSPORTS": "tcp",
                        "HOLDFAST_HOST_ID": f"host{rank}",
                        "HOLDFAST_ADDRESS": path.address(rank),
                        "HOLDFAST_TIMEOUT": "60",
                    },
                    path.inside(rank),
                )
                for rank in range(2)
            ]
            watchdog = threading.Timer(LIMIT_S, lambda: [one.kill() for one in ranks])
            watchdog.start()
            said = []
            # It begins with int4, and has seen the slow path for some rounds.
            for until, mbit in (("ROUND 8 int4", FAST_MBIT), (" bf16 ", SLOW_MBIT)):
                while until not in (line := ranks[0].stdout.readline()) and line:
                    said.append(line)
                assert line, said
                path.set("both", mbit=mbit)
            outcomes = all_end_well(ranks, LIMIT_S)
            watchdog.cancel()
    except Unavailable as why:
        pytest.skip(str(why))
    first, second = found_by(outcomes)
    # The same codecs after the same rounds, and the same bits.
    assert first["trail"] == second["trail"]
    names = first["names"]
    assert names[0] == names[-1] == "int4", first["log"]
    # Up and down, and not to and fro. Frames that last a few round trips only say less of a fast
    # path than larger ones, so that a busy machine may need a step between.
    climbs, falls = names[: names.index("bf16") + 1], names[names.index("bf16") :]
    assert climbs == sorted(climbs, key=ORDER.index), first["log"]
    assert falls == sorted(falls, key=ORDER.index, reverse=True), first["log"]
    # A line for each change, with its reason.
    assert len(first["log"]) == len(names) - 1
    assert "instead of int4" in first["log"][0]
    assert "Mbit/s" in first["log"][0]
    assert "instead of bf16" in first["log"][len(climbs) - 1]


def test_members_agree_whatever_each_of_them_measures():
    nets = [model() for _ in range(3)]

    def program(exchange: ThreadExchange) -> list[tuple[str | None, str, bytes]]:
        net = nets[exchange.rank]
        trainer = ft.StreamingDiLoCo(
            net, adam(net), CodedExchange(exchange), inner_steps=H, fragments=3, delay=3, codec=AUTO
        )
        trail = []
        for step in range(12 * H):
            local_step(trainer, net, exchange.rank, step)
            if trainer.last is not None:
                trail.append((trainer.last.codec, trainer.last.why, bits(trainer)))
        return trail

    first, *others = run(3, program)
    assert all(other == first for other in others)
    assert all(why for _, why, _ in first)


def test_what_is_in_flight_keeps_the_codec_that_it_began_with():
    nets = [[model() for _ in range(2)] for _ in range(2)]

    def program(exchange: ThreadExchange, codec: str | None, own: list) -> bytes:
        net = own[exchange.rank]
        trainer = ft.StreamingDiLoCo(
            net,
            adam(net),
            CodedExchange(exchange),
            inner_steps=H,
            fragments=3,
            delay=5,
            codec=codec,
            outer=ft.OuterSGD(),
        )
        assert trainer.rounds.in_flight == 3
        for step in range(4 * H):
            if codec is not None:
                # Another codec after each local step, with up to three exchanges under way.
                hold(trainer, step % 3)
            local_step(trainer, net, exchange.rank, step)
        if codec is not None:
            flights = {flight.index for flight in auto_of(trainer)._flights.values()}
            assert len(flights) > 1
        return bits(trainer)

    coded = run(2, lambda exchange: program(exchange, AUTO, nets[0]))
    plain = run(2, lambda exchange: program(exchange, None, nets[1]))
    assert coded[0] == coded[1]
    assert plain[0] == plain[1]
    got, want = (torch.frombuffer(bytearray(one[0]), dtype=torch.float32) for one in (coded, plain))
    # Off by what the codecs lose of progress, and no more.
    assert not torch.equal(got, want)
    torch.testing.assert_close(got, want, rtol=0, atol=0.02)


def test_a_resumed_run_goes_on_with_the_same_codec_and_the_bits_of_the_other():
    nets, again = ([model() for _ in range(2)] for _ in range(2))
    lock = threading.Lock()
    stop = 2 * H + 1

    def trainer_of(net, exchange: ThreadExchange) -> ft.Trainer:
        return ft.AsyncDiLoCo(net, adam(net), CodedExchange(exchange), inner_steps=H, codec=AUTO)

    def program(exchange: ThreadExchange) -> None:
        rank = exchange.rank
        net = nets[rank]
        trainer = trainer_of(net, exchange)
        hold(trainer, 1)
        for step in range(stop):
            local_step(trainer, net, rank, step)
        file = io.BytesIO()
        with lock:
            torch.save([net.state_dict(), trainer.inner.state_dict(), trainer.state_dict()], file)
        saved = torch.load(io.BytesIO(file.getvalue()))
        other = trainer_of(again[rank], exchange)
        for thing, state in zip((again[rank], other.inner, other), saved, strict=True):
            thing.load_state_dict(state)
        assert auto_of(other)._record.read() == auto_of(trainer)._record.read()
        for one, own in ((trainer, net), (other, again[rank])):
            for step in range(stop, stop + 2 * H):
                local_step(one, own, rank, step)
        assert other.last is not None
        assert other.last.codec == "int8(block=128)"
        assert bits(other) == bits(trainer)

    run(2, program)


def test_a_state_of_another_list_is_refused():
    def trainer_of(codec: str) -> ft.Trainer:
        net = model()
        return ft.DiLoCo(net, adam(net), Alone(), inner_steps=H, codec=codec)

    state = trainer_of("auto(bf16,int4)").state_dict()
    with pytest.raises(ConfigError, match=r"shared state.*auto\(bf16,int4"):
        trainer_of(AUTO).load_state_dict(state)


def test_one_member_alone_has_nothing_to_choose():
    net = model()
    trainer = ft.DiLoCo(net, adam(net), Alone(), inner_steps=H, codec=AUTO)
    for step in range(2 * H):
        local_step(trainer, net, 0, step)
    assert trainer.last is not None
    assert trainer.last.codec == "int4(block=128)"
    assert "until rates have been measured" in trainer.last.why


def test_a_codec_that_was_not_chosen_from_a_list_has_no_reason():
    net = model()
    trainer = ft.DiLoCo(net, adam(net), Alone(), inner_steps=H, codec="int8")
    for step in range(H):
        local_step(trainer, net, 0, step)
    assert trainer.last is not None
    assert (trainer.last.codec, trainer.last.why) == ("int8(block=128)", "")


def test_members_with_other_lists_are_told_so():
    nets = [model() for _ in range(2)]

    def program(exchange: ThreadExchange) -> None:
        net = nets[exchange.rank]
        codec = AUTO if exchange.rank == 0 else "auto(bf16,int4)"
        trainer = ft.DiLoCo(net, adam(net), exchange, inner_steps=H, codec=codec)
        with pytest.raises(ConfigError, match=r"codec\) of rank 1 differs"):
            local_step(trainer, net, exchange.rank, 0)

    run(2, program)


def test_a_list_whose_larger_frames_stand_behind_is_refused_with_the_two():
    net = model()
    with pytest.raises(ConfigError, match=r"frames of bf16 are larger than those of int4"):
        ft.DiLoCo(net, adam(net), Alone(), inner_steps=H, codec="auto(int4,bf16)")
