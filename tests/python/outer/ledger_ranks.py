"""Ranks that train on what a ledger leases, and write down what it commits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection
from pathlib import Path

import torch
from methods import METHODS, model
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch_world import join

import holdfast
from holdfast import ft

SIZE = 16_000
BATCH = 8
LEASE = 400


class Samples(Dataset):
    """Sample n is n, and four classes of patterns under noise."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.patterns = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, int]:
        noise = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return index, self.patterns[index % 4] + 0.3 * noise, index % 4


class Noted(ft.DataLedger):
    """Writes what each mean commits, with the digest of the ledger that it makes."""

    def __init__(self, size: int, lease: int, **more: object) -> None:
        super().__init__(size, lease, **more)  # type: ignore[arg-type]
        self.notes = os.open(f"notes-{os.getpid()}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def arrived(self, fragment, counts, dropped=()):
        before = self._state
        super().arrived(fragment, counts, dropped)
        gone = sorted(_places(before) - _places(self._state))
        indices = self._indices(torch.tensor(gone, dtype=torch.int64).numpy()).tolist()
        self.note({"digest": self.digest, "left": self.left, "indices": indices})

    def note(self, what: dict) -> None:
        # One write, so that a SIGKILL leaves no half of a line but the last.
        os.write(self.notes, (json.dumps(what) + "\n").encode())


def _places(state) -> set[int]:
    held = [each for lease in state.leases.values() for each in lease.ranges]
    return {place for each in [*state.free, *held] for place in range(*each)}


def train(trainer: ft.Trainer, net: nn.Module, ledger: Noted, workers: int = 0) -> None:
    """One epoch, with whoever is there."""
    data = Samples(ledger.size)
    loader = DataLoader(data, BATCH, sampler=ledger, num_workers=workers)
    calm = Path("calm")
    last = None
    for batch in ledger.batches(loader):
        trainer.inner.zero_grad()
        count = 0
        if batch is not None:
            indices, x, y = batch
            nn.functional.cross_entropy(net(x), y).backward()
            count = len(indices)
            ledger.note({"trained": indices.tolist()})
        trainer.step(samples=count)
        if trainer.last is not None and trainer.last != last:
            last = trainer.last
            ledger.note({"step": last.step, "samples": sum(last.weights.values())})
        if not calm.exists():
            time.sleep(0.02)  # what a step computes


def elastic() -> None:
    """A peer of an elastic group, until the epoch is over."""
    torch.set_num_threads(1)
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        net = model()
        trainer = METHODS[os.environ["METHOD"]](net, torch.optim.SGD(net.parameters(), 0.01), group)
        ledger = Noted(SIZE, LEASE, seed=5)
        trainer.attach(ledger)
        trainer.advance(each_round=True)
        print("in", flush=True)
        train(trainer, net, ledger)
        print("END", ledger.digest, flush=True)


def whole_epoch() -> None:
    """Fixed members over BACKEND, METHOD; one member's progress is once not finite."""
    rank, _ = join(os.environ["BACKEND"])
    net = model()
    trainer = METHODS[os.environ["METHOD"]](net, torch.optim.SGD(net.parameters(), 0.01), None)
    ledger = Noted(900, 160, seed=1)
    trainer.attach(ledger)
    trainer.advance(each_round=True)
    Path("calm").touch()
    begin = trainer._sends
    odd = []

    def spoilt(fragment: int, local: torch.Tensor) -> torch.Tensor:
        sent = begin(fragment, local)
        if rank == 1 and trainer.steps >= 12 and not odd:
            odd.append(fragment)
            sent[0] = float("nan")
        return sent

    trainer._sends = spoilt  # type: ignore[method-assign]
    train(trainer, net, ledger, workers=1 if rank == 0 else 0)
    trainer.finish()
    print("END", ledger.digest, flush=True)
    torch.distributed.destroy_process_group()
    if os.environ["BACKEND"] == "gloo":
        # Its threads let go of tensors while the interpreter ends, which aborts one run in ten.
        os._exit(0)


# ---- what they have written ----------------------------------------------------------------------

# Who is killed may have seen the end of ops that the survivors ran again without it.
LAST_WORDS = 4


def notes(here: Path, killed: Collection[int] = ()) -> list[dict]:
    found = []
    for file in here.glob("notes-*"):
        own = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        agreed = [note for note in own if "trained" not in note]
        if int(file.name.removeprefix("notes-")) in killed:
            agreed[-LAST_WORDS:] = [{**note, "unsure": True} for note in agreed[-LAST_WORDS:]]
        found += [*agreed, *(note for note in own if "trained" in note)]
    return found


def committed(found: list[dict]) -> list[int]:
    """What was committed, event by event; members that saw the same one agree about it."""
    events: dict[int, list[int]] = {}
    unsure: dict[int, list[int]] = {}
    for note in found:
        if "digest" in note and note["indices"]:
            which = unsure if "unsure" in note else events
            assert which.setdefault(note["digest"], note["indices"]) == note["indices"]
    done = [index for indices in events.values() for index in indices]
    for digest, indices in unsure.items():
        # What nobody who is sure of it has committed otherwise: others who saw it were killed, too.
        if digest not in events and not {*done} & {*indices}:
            done += indices
    return done


def trained(found: list[dict]) -> set[int]:
    return {index for note in found for index in note.get("trained", ())}
