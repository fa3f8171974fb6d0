"""Three sites far apart train a small GPT: one is killed, one is late, and a new one comes.

    python examples/wan_char_gpt.py --picture wan.png

plays a coordinator and all sites on this host, each a process. A site does 20 local steps between
two exchanges (DiLoCo), progress travels in 4 bits, and who comes or goes does so between rounds.
One site is ended by kill -9 in the middle of a round and started again, then a fourth one comes,
and one stands still for a while. Nobody else loses a step, and every window of the text counts
exactly once (DataLedger). Told are the loss, what was sent beside what DDP would have sent, and
what each event has cost the first site, in time. It needs holdfast[torch,plot,prometheus].
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import holdfast
from holdfast.ft.health.collector import HoldfastCollector

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 4, 2, 8
VOCABULARY = 128  # ASCII
INNER_STEPS, SITES, LEARNING_RATE = 20, 3, 3e-3
HELD_OUT = 128  # windows
# Parts of the text that are trained on when something happens, and to which site.
KILLED, NEW, LATE = (0.2, 1), (0.4, 3), (0.7, 2)
FAR = holdfast.Options(transports=("tcp",))
FORK = multiprocessing.get_context("fork")


class GPT(nn.Module):
    """Predicts the next character."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        shape = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": 4 * WIDTH}
        kind = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(**shape, **kind) for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        x = self.characters(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(x)


def load() -> torch.Tensor:
    """Return CPython's own documentation, which every Python carries, in windows."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    data = torch.frombuffer(bytearray(text, "ascii", "replace"), dtype=torch.uint8).long()
    return data.unfold(0, CONTEXT + 1, CONTEXT)


def loss_of(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats per character."""
    found = model(windows[:, :-1]).flatten(0, 1)
    return nn.functional.cross_entropy(found, windows[:, 1:].flatten())


# ---- a site --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What a site says of a local step."""

    step: int
    loss: float
    at: float  # seconds on the host's clock
    sites: int
    done: float  # of the windows, what part is committed


class Event(NamedTuple):
    """What happened to a site, after which step."""

    what: str
    step: int
    at: float


class End(NamedTuple):
    """What a site has when all is done."""

    loss: float  # of windows that nobody has trained on
    sent: float  # bytes
    to_newcomers: float  # of these
    parameters: int


def sent_bytes(family: str) -> float:
    """Bytes that this process has sent, as Holdfast counts them."""
    samples = [each for metric in HoldfastCollector().collect() for each in metric.samples]
    sent = [each for each in samples if each.labels.get("direction") == "sent"]
    return sum(each.value for each in sent if each.name == family)


def train(url: str, site: int, life: int, arguments: argparse.Namespace, tell: Connection) -> None:
    """Train until every window is committed; a newcomer runs the same lines."""
    windows = load()
    data = TensorDataset(windows[HELD_OUT:][: arguments.windows])
    torch.manual_seed(0)
    model = GPT()
    inner = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    ledger = holdfast.ft.DataLedger(len(data), lease=4 * INNER_STEPS * BATCH, seed=1)
    loader = DataLoader(data, batch_size=BATCH, sampler=ledger)

    def happens(event: tuple[float, int], what: str) -> bool:
        done = 1 - ledger.left / len(data)
        if site != event[1] or done < event[0] or trainer.steps % INNER_STEPS != 10:
            return False
        tell.send(Event(what, trainer.steps, time.monotonic()))
        return True

    with holdfast.join(url, min_peers=SITES, options=FAR) as group:
        trainer = holdfast.ft.DiLoCo(model, inner, group, inner_steps=INNER_STEPS, codec="int4")
        trainer.attach(ledger)
        trainer.advance(each_round=True)
        late_s = arguments.late
        for batch in ledger.batches(loader):
            inner.zero_grad()
            loss, count = torch.tensor(torch.nan), 0
            if batch is not None:  # None: what is left is with other sites
                loss, count = loss_of(model, batch[0]), len(batch[0])
                loss.backward()
            if life == 0 and happens(KILLED, "is killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            if late_s and happens(LATE, f"stands still for {late_s} s"):
                time.sleep(late_s)
                late_s = 0
            trainer.step(samples=count)
            sites, done = len(trainer.view.ranks), 1 - ledger.left / len(data)
            tell.send(Row(trainer.steps, loss.item(), time.monotonic(), sites, done))
        trainer.finish()
        with torch.no_grad():
            loss = loss_of(model, windows[:HELD_OUT]).item()
        sent = [sent_bytes(f"holdfast_{what}_bytes_total") for what in ("link", "sync")]
        tell.send(End(loss, *sent, sum(each.numel() for each in model.parameters())))


# ---- all of them ---------------------------------------------------------------------------------


class Sites:
    """The processes of all sites, and what they say."""

    def __init__(self, url: str, arguments: argparse.Namespace) -> None:
        self.url, self.arguments = url, arguments
        self.running: dict[Connection, tuple[int, int, multiprocessing.Process]] = {}
        self.rows: dict[int, list[Row]] = {}
        self.ends: dict[int, End] = {}
        self.events: list[tuple[int, Event]] = []
        self.awaited = NEW[0]

    def start(self, site: int, life: int = 0) -> None:
        listen, tell = FORK.Pipe(duplex=False)
        process = FORK.Process(target=train, args=(self.url, site, life, self.arguments, tell))
        process.start()
        tell.close()
        self.running[listen] = (site, life, process)

    def follow(self) -> None:
        """Hear all sites until they end; start again who is killed, and the new one in time."""
        came = {(site, 0) for site in range(SITES)}
        while self.running:
            for listen in wait(list(self.running)):
                site, life, process = self.running[listen]
                try:
                    told = listen.recv()
                except EOFError:
                    del self.running[listen]
                    process.join()
                    if process.exitcode == -signal.SIGKILL and life == 0:
                        self.start(site, 1)
                    continue
                if isinstance(told, Event):
                    self.events.append((site, told))
                elif isinstance(told, End):
                    self.ends[site] = told
                else:
                    self.rows.setdefault(site, []).append(told)
                    if (site, life) not in came:
                        came.add((site, life))
                        what = "comes back" if life else "is new"
                        self.events.append((site, Event(what, told.step, told.at)))
                    if told.done >= self.awaited:
                        self.start(NEW[1])
                        self.awaited = 2.0


def round_times(rows: list[Row]) -> list[tuple[int, float, float]]:
    """Of each round: its last step, when it ended, and how long it was."""
    ends = [row for row in rows if row.step % INNER_STEPS == 0]
    return [(b.step, b.at, b.at - a.at) for a, b in itertools.pairwise(ends)]


def tell(sites: Sites) -> None:
    """Print what it came to."""
    rounds = round_times(sites.rows[0])
    usual = statistics.median(seconds for *_, seconds in rounds)
    print(f"{INNER_STEPS} local steps and an exchange take {usual:.2f} s")
    for site, event in sites.events:
        extra = sum([seconds - usual for _, at, seconds in rounds if at > event.at][:2])
        print(
            f"step {event.step}: site {site} {event.what}; that cost the first site "
            f"{max(extra, 0):.2f} s, and no step"
        )
    first, steps = sites.ends[0], sites.rows[0][-1].step
    ddp = 2 * (SITES - 1) / SITES * 4 * first.parameters
    own = (first.sent - first.to_newcomers) / steps
    print(
        f"the first site sent {own:,.0f} bytes a step, and {first.to_newcomers:,.0f} to newcomers; "
        f"DDP sends {ddp:,.0f}, {ddp / own:.0f} times as many"
    )
    for site in {0, LATE[1]}:
        done = [row.step for row in sites.rows[site]]
        assert done == list(range(1, steps + 1)), f"site {site} lost a step: {done}"
    assert len(sites.ends) == SITES + 1, f"sites {sorted(sites.ends)} have ended well"
    assert len({end.loss for end in sites.ends.values()}) == 1, sites.ends
    print(
        f"all {len(sites.ends)} sites have one model: loss {first.loss:.3f} after {steps} steps, "
        "each window of the text trained on once"
    )


def save_picture(path: Path, sites: Sites) -> None:
    """Draw the mean loss of the sites over steps, how long rounds were, and the events."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (loss, seconds) = pyplot.subplots(
        2, 1, figsize=(9, 5.5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    for site, rows in sorted(sites.rows.items()):
        loss.plot([r.step for r in rows], [r.loss for r in rows], ".", ms=3, label=f"site {site}")
    steps, _, took = zip(*round_times(sites.rows[0]), strict=True)
    seconds.step(steps, took, color="tab:gray")
    for place, (site, event) in enumerate(sites.events):
        for axes in (loss, seconds):
            axes.axvline(event.step, color="tab:red", linestyle="--", linewidth=1)
        height = loss.get_ylim()[1] - 0.25 * (1 + place)
        loss.text(event.step, height, f" site {site} {event.what}")
    loss.set(ylabel="loss (nats per character)")
    seconds.set(xlabel="step", ylabel="s a round", ylim=(0, None))
    loss.legend(loc="lower left")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=7000, help="of the text, to train on")
    parser.add_argument("--late", type=float, default=3, help="seconds that a site stands still")
    parser.add_argument("--picture", type=Path, help="where to draw, such as wan.png")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    command = [sys.executable, "-m", "holdfast.cli", "coordinator", "--port", "0"]
    command += ["--address", "127.0.0.1", "--grace", "0"]  # no group was here before
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    coordinator = subprocess.Popen(command, text=True, **quiet)
    port = re.search(r"port (\d+)", coordinator.stdout.readline()).group(1)
    torch.optim.Adam(GPT().parameters())  # imports what sites would import one by one
    sites = Sites(f"holdfast://127.0.0.1:{port}/wan", arguments)
    try:
        for site in range(SITES):
            sites.start(site)
        sites.follow()
        tell(sites)
        if arguments.picture:
            save_picture(arguments.picture, sites)
    finally:
        for _, _, process in sites.running.values():
            process.kill()
        coordinator.kill()


if __name__ == "__main__":
    main()
