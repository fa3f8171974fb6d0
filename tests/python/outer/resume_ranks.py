"""Ranks that save a run by torch.distributed.checkpoint, and ranks that go on with it."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from ledger_ranks import Noted, Samples
from methods import METHODS, H, batch, bits, local_step, model
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.utils.data import DataLoader
from torch_world import expect, join

from holdfast import ft

KINDS = ("diloco", "sparse", "streaming, 3, 3", "eager, 2, 4", "co2", "delayed, 3, 6")
STOP = 2 * H + 3
END = 4 * H + 1
# Of the run whose loss is looked at.
LONG_STOP = 10 * H + 2
LONG_END = 20 * H


def leave() -> None:
    backend = dist.get_backend()
    dist.destroy_process_group()
    if backend == "gloo":
        # Its threads let go of tensors while the interpreter ends, which aborts one run in ten.
        os._exit(0)


def made(kind: str) -> tuple[ft.Trainer, nn.Module]:
    net = model()
    return METHODS[kind](net, torch.optim.AdamW(net.parameters(), 3e-3), None), net


def found(trainer: ft.Trainer, net: nn.Module) -> list[int]:
    flat = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    return [zlib.crc32(bits(trainer)), zlib.crc32(flat.numpy().tobytes())]


def loss_of(trainer: ft.Trainer, net: nn.Module) -> float:
    """Of what is shared, on samples that nobody trains on."""
    shared = trainer.shared_parameters()
    with torch.no_grad():
        parts = [batch(99, step) for step in range(40)]
        x, y = (torch.cat([part[n] for part in parts]) for n in (0, 1))
        return float(nn.functional.cross_entropy(torch.func.functional_call(net, shared, x), y))


def tell(what: object) -> None:
    print("FOUND", json.dumps(what), flush=True)


def save() -> None:
    """Train each kind, save it on the way, both ways, and go on to the end."""
    rank, _ = join(os.environ["BACKEND"])
    ends: dict[str, object] = {}
    for kind in KINDS:
        trainer, net = made(kind)
        for step in range(END):
            if step == STOP:
                ft.save_run(kind, trainer, net)
                own = {str(rank): [net.state_dict(), trainer.inner.state_dict()]}
                torch.save(own, f"{kind}-{rank}")
                dcp.save({"trainer": trainer.state_dict()}, checkpoint_id=f"{kind}, state")
            local_step(trainer, net, rank, step)
        ends[kind] = found(trainer, net)
    tell(ends)
    leave()


def go_on() -> None:
    """As many members; by load_run and by the trainer's own state."""
    rank, _ = join(os.environ["BACKEND"])
    ends: dict[str, object] = {}
    for kind in KINDS:
        both = []
        for by_run in (True, False):
            trainer, net = made(kind)
            if by_run:
                ft.load_run(kind, trainer, net)
            else:
                saved, inner = torch.load(f"{kind}-{rank}")[str(rank)]
                net.load_state_dict(saved)
                trainer.inner.load_state_dict(inner)
                state = {"trainer": trainer.state_dict()}
                dcp.load(state, checkpoint_id=f"{kind}, state")
                trainer.load_state_dict(state["trainer"])
            for step in range(STOP, END):
                local_step(trainer, net, rank, step)
            both.append(found(trainer, net))
        assert both[0] == both[1], kind
        ends[kind] = both[0]
    tell(ends)
    leave()


def save_long() -> None:
    """Train to the end, with residuals and what is under way saved half-way."""
    rank, _ = join(os.environ["BACKEND"])
    ends: dict[str, object] = {}
    for kind in KINDS:
        trainer, net = made(kind)
        for step in range(LONG_END):
            if step == LONG_STOP:
                ft.save_run(kind, trainer, net)
                ends[kind] = {"residual": residual(trainer), "bits": zlib.crc32(bits(trainer))}
            local_step(trainer, net, rank, step)
        trainer.finish()
        ends[kind] |= {"loss": loss_of(trainer, net)}  # type: ignore[operator]
    tell(ends)
    leave()


def go_on_with_others() -> None:
    """As other members than those that saved."""
    rank, size = join(os.environ["BACKEND"])
    ends: dict[str, object] = {}
    for kind in KINDS:
        trainer, net = made(kind)
        ft.load_run(kind, trainer, net)
        ends[kind] = {"residual": residual(trainer), "bits": zlib.crc32(bits(trainer))}
        assert trainer.steps == LONG_STOP
        if rank >= 4:
            assert not trainer.state_dict()["own"][str(rank)]["samples"].any()
        for step in range(LONG_STOP, LONG_END):
            local_step(trainer, net, rank, step)
        trainer.finish()
        assert len(trainer.last.weights) == size
        ends[kind] |= {"loss": loss_of(trainer, net)}  # type: ignore[operator]
    tell(ends)
    leave()


def residual(trainer: ft.Trainer) -> list[float]:
    (own,) = trainer.state_dict()["own"].values()
    owed = [tensor.double() for name, tensor in own.items() if name.startswith("residual/")]
    return [float(part) for tensor in owed for part in (tensor.sum(), tensor[:50].sum())]


def refused() -> None:
    """Of another trainer, of none, and without a folder."""
    join(os.environ["BACKEND"])
    trainer, net = made("streaming, 3, 3")
    ft.save_run("here", trainer, net)
    other, net = made("diloco")
    before = found(other, net)
    words = "the state is of StreamingDiLoCo(inner_steps=6, fragments=3, delay=3"
    expect(ValueError, words, lambda: ft.load_run("here", other, net))
    expect(ValueError, "nowhere", lambda: ft.load_run("nowhere", other, net))
    dcp.save({"other": torch.ones(3)}, checkpoint_id="other")
    expect(ValueError, "has no run", lambda: ft.load_run("other", other, net))
    assert found(other, net) == before
    leave()


# ---- with a ledger -------------------------------------------------------------------------------

SAMPLES = 1500


def counted() -> None:
    """An epoch, from where it was saved if it was, to its end or to SAVE_AT local steps."""
    join(os.environ["BACKEND"])
    trainer, net = made("streaming, 3, 3")
    ledger = Noted(SAMPLES, 150, seed=4)
    trainer.attach(ledger)
    if Path("run").exists():
        ft.load_run("run", trainer, net)
    trainer.advance(each_round=True)
    for part in ledger.batches(DataLoader(Samples(SAMPLES), 8, sampler=ledger)):
        if part is not None:
            ledger.note({"trained": part[0].tolist()})
        sample_step(trainer, net, part)
        if trainer.steps == int(os.environ.get("SAVE_AT", "0")):
            ft.save_run("run", trainer, net)
            break
    tell({"left": ledger.left, "open": int(ledger.trained), "digest": ledger.digest})
    leave()


def sample_step(trainer: ft.Trainer, net: nn.Module, part) -> None:
    trainer.inner.zero_grad()
    if part is not None:
        _, x, y = part
        nn.functional.cross_entropy(net(x), y).backward()
    trainer.step(samples=0 if part is None else len(part[0]))


def counted_bits() -> None:
    """An epoch that is saved at each step of a round, and each of these runs to its end."""
    join(os.environ["BACKEND"])
    ends = []
    for start in (None, *range(2 * H, 3 * H)):
        trainer, net = made("streaming, 3, 3")
        ledger = ft.DataLedger(SAMPLES, 150, seed=4)
        trainer.attach(ledger)
        if start is not None:
            ft.load_run(f"at-{start}", trainer, net)
        trainer.advance(each_round=True)
        for part in ledger.batches(DataLoader(Samples(SAMPLES), 8, sampler=ledger)):
            sample_step(trainer, net, part)
            if start is None and 2 * H <= trainer.steps < 3 * H:
                ft.save_run(f"at-{trainer.steps}", trainer, net)
        ends.append([*found(trainer, net), ledger.digest, trainer.steps])
    assert all(end == ends[0] for end in ends), ends
    tell(ends[0][2:])
    leave()
