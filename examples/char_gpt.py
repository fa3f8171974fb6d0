"""Train a small GPT on characters of real text with DistributedDataParallel over Holdfast.

The text is CPython's own documentation, which every Python carries (pydoc_data.topics, ~465 KB).
Run it: holdfast run -n 4 examples/char_gpt.py
The same over gloo: holdfast run -n 4 examples/char_gpt.py --backend gloo
With a rank that dies and comes back: holdfast run -n 4 --respawn examples/char_gpt.py --kill 2
"""

import argparse
import json
import math
import os
import signal
import statistics
import sys
import threading
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import holdfast

CONTEXT = 64
WIDTH = 96
HEADS = 4
LAYERS = 3
VALIDATION_BATCHES = 12


class Block(nn.Module):
    """Attention and a small network, each with its own residual path."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.before_network = nn.LayerNorm(WIDTH)
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.mix(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.network(self.before_network(x))


class CharGPT(nn.Module):
    """Predicts the next character."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.last(self.blocks(self.characters(tokens) + self.positions(places))))


def load_text() -> tuple[torch.Tensor, list[str]]:
    """Return the text as character numbers, and the characters."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    return torch.tensor([number[c] for c in text]), characters


def pick(
    data: torch.Tensor, batch: int, chance: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random windows and the same windows one character on."""
    starts = torch.randint(len(data) - CONTEXT - 1, (batch,), generator=chance)
    windows = torch.stack([data[s : s + CONTEXT + 1] for s in starts])
    return windows[:, :-1], windows[:, 1:]


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy in nats per character."""
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@torch.no_grad()
def validation_loss(model: nn.Module, data: torch.Tensor, seed: int) -> float:
    """Mean over fixed windows of held-out text, the same on every rank."""
    chance = torch.Generator().manual_seed(seed)
    losses = [loss_of(model, *pick(data, 32, chance)) for _ in range(VALIDATION_BATCHES)]
    return float(torch.stack(losses).mean())


@torch.no_grad()
def sample(model: nn.Module, characters: list[str], length: int, seed: int) -> str:
    """Write on from a heading."""
    chance = torch.Generator().manual_seed(seed)
    tokens = [characters.index(c) for c in "The "]
    for _ in range(length):
        logits = model(torch.tensor([tokens[-CONTEXT:]]))[0, -1]
        chosen = torch.multinomial(torch.softmax(logits / 0.8, 0), 1, generator=chance)
        tokens.append(int(chosen))
    return "".join(characters[t] for t in tokens)


class Progress:
    """A bar on a terminal, plain lines elsewhere; on rank 0 only."""

    def __init__(self, steps: int, shown: bool) -> None:
        self.steps = steps
        self.shown = shown
        self.start = time.monotonic()
        self.bar = sys.stderr.isatty()

    def update(self, step: int, loss: float) -> None:
        every = 1 if self.bar else max(1, self.steps // 10)
        if not self.shown or (step % every != 0 and step != self.steps):
            return
        spent = time.monotonic() - self.start
        left = spent / step * (self.steps - step)
        line = f"step {step}/{self.steps}  loss {loss:.3f}  {spent:.0f} s, {left:.0f} s left"
        if self.bar:
            filled = 30 * step // self.steps
            end = "\n" if step == self.steps else ""
            print(f"\r[{'=' * filled:30}] {line}  ", end=end, file=sys.stderr, flush=True)
        else:
            print(line, flush=True)


class Change(NamedTuple):
    """A step at which a rank was lost or came back, and what that cost the others."""

    step: int
    lost: bool
    took_ms: float  # this step, or the one before if that was longer
    extra_ms: float  # what it took longer than the median of the 50 steps before
    at_s: float  # since the first step


def changes_of(history: dict) -> list[Change]:
    """Find them in the number of ranks by step; the cost lies in that step or the one before."""
    ranks, seconds = history["ranks"], history["seconds"]
    found = []
    for i in range(1, len(ranks)):
        if ranks[i] != ranks[i - 1]:
            usual = statistics.median(seconds[max(0, i - 50) : i])
            took = max(seconds[i - 1 : i + 1])
            lost = ranks[i] < ranks[i - 1]
            at = sum(seconds[: i + 1])
            found.append(Change(i + 1, lost, 1000 * took, 1000 * (took - usual), at))
    return found


def tell_cost(history: dict, steps: int, batch: int) -> None:
    """One line about the kill: time, steps, work."""
    changes = changes_of(history)
    lost = [c for c in changes if c.lost]
    if not lost:
        return
    kill = lost[0]
    cost = f"{kill.extra_ms:.0f} ms" if kill.extra_ms > 0 else "no time that can be measured"
    line = (
        f"the kill cost {cost} (step {kill.step} took {kill.took_ms:.0f} ms, the 50 before "
        f"{kill.took_ms - kill.extra_ms:.0f} ms each), no step of {steps}, and nobody's work but "
        f"the killed rank's own: {batch} windows a step"
    )
    for back in [c for c in changes if not c.lost][:1]:
        line += f"; it was back {back.at_s - kill.at_s:.1f} s later, for {back.extra_ms:.0f} ms"
    print(line, flush=True)


def save_picture(path: Path, history: dict, validation: float, title: str) -> None:
    """Draw loss, step time and view over the steps; where a rank was lost and came back."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (loss, seconds, view) = pyplot.subplots(
        3, 1, figsize=(8, 7), sharex=True, height_ratios=(3, 2, 1.3), layout="constrained"
    )
    steps = range(1, len(history["losses"]) + 1)
    loss.plot(steps, history["losses"], linewidth=1, label="training")
    loss.axhline(validation, color="tab:orange", linestyle="--", label="validation, at the end")
    loss.set(ylabel="loss (nats per character)", title=title)
    seconds.plot(steps, [1000 * s for s in history["seconds"]], linewidth=0.8, color="tab:purple")
    seconds.set(ylabel="step time (ms)", yscale="log")
    if history["ranks"]:
        view.step(steps, history["ranks"], where="post", color="tab:gray")
        view.set(ylabel="ranks in the view", ylim=(0, max(history["ranks"]) + 1))
    view.set(xlabel="step")
    for change in changes_of(history):
        color, what = ("tab:red", "kill -9") if change.lost else ("tab:green", "it is back")
        label = f"{what}, step {change.step}: {change.extra_ms:+.0f} ms"
        for axes in (loss, seconds, view):
            axes.axvline(change.step, color=color, linewidth=1, label=label)
    loss.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="holdfast", help="holdfast or gloo")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16, help="windows per rank and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("demo-out/demo.png"))
    parser.add_argument("--losses", type=Path, help="write losses, step times and views as JSON")
    parser.add_argument("--kill", type=int, metavar="RANK", help="end it with SIGKILL on the way")
    return parser.parse_args()


def kill_step(arguments: argparse.Namespace) -> int:
    return 2 * arguments.steps // 5


def tell_plan(arguments: argparse.Namespace) -> None:
    """What is going to happen, before it does."""
    print(
        f"{dist.get_world_size()} ranks over {dist.get_backend()} on {os.cpu_count()} cores train "
        f"a small GPT on Python's own documentation: {arguments.steps} steps."
    )
    if arguments.kill is not None:
        print(
            f"At step {kill_step(arguments)} rank {arguments.kill} is ended by kill -9. The others "
            "go on; it is started again, fetches the state from them and takes its place back."
        )
    sys.stdout.flush()


def wrap(model: nn.Module, resilient: bool) -> DistributedDataParallel:
    """Every rank begins with the same parameters: there is nothing to broadcast."""
    ddp = DistributedDataParallel(model, init_sync=False)
    if resilient:
        ddp.register_comm_hook(None, holdfast.average_gradients)
    return ddp


class Prepared(NamedTuple):
    """What a rank makes before the others know of it."""

    data: torch.Tensor
    characters: list[str]
    model: CharGPT
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler


def prepare(arguments: argparse.Namespace) -> Prepared:
    """Make it before the group: members wait for whoever they have admitted."""
    torch.manual_seed(arguments.seed)
    data, characters = load_text()
    model = CharGPT(len(characters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * s / arguments.steps))
    )
    return Prepared(data, characters, model, optimizer, schedule)


def train(arguments: argparse.Namespace, prepared: Prepared) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    resilient = arguments.backend == "holdfast"
    data, characters, model, optimizer, schedule = prepared
    cut = int(0.9 * len(data))
    ddp = wrap(model, resilient)
    history = {"losses": [], "seconds": [], "ranks": []}
    progress = Progress(arguments.steps, rank == 0)
    step_began = time.monotonic()
    came_back = False
    while len(history["losses"]) < arguments.steps:
        if resilient and rank in (joined := holdfast.advance().joined):
            came_back = True
        if resilient and joined:
            # Whoever came in takes over everything; all begin the next step alike.
            holdfast.sync(model, optimizer, schedule, history)
            ddp = wrap(model, resilient)
        step = len(history["losses"]) + 1
        if rank == arguments.kill and not came_back and step == kill_step(arguments):
            threading.Timer(0.03, os.kill, (os.getpid(), signal.SIGKILL)).start()
        # Drawn from seed, rank and step: a newcomer draws what its predecessor would have.
        chance = torch.Generator().manual_seed((arguments.seed * 1000 + rank) * 100_000 + step)
        loss = loss_of(ddp, *pick(data[:cut], arguments.batch, chance))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        mean = loss.detach().clone()
        if resilient:
            work = dist.all_reduce(mean, op=dist.ReduceOp.AVG, async_op=True)
            work.wait()
            history["ranks"].append(len(holdfast.outcome(work).contributors))
        else:
            dist.all_reduce(mean)
            mean /= size
        history["losses"].append(float(mean))
        step_ended = time.monotonic()
        history["seconds"].append(step_ended - step_began)
        step_began = step_ended
        progress.update(step, history["losses"][-1])
    validation = validation_loss(model, data[cut:], arguments.seed)
    if rank != 0:
        return
    print(
        f"validation loss: {validation:.3f} nats per character ({size} ranks, "
        f"{arguments.backend}, {time.monotonic() - progress.start:.0f} s)"
    )
    print(f"sample:\n{sample(model, characters, 200, arguments.seed)}\n")
    tell_cost(history, arguments.steps, arguments.batch)
    title = f"char_gpt: {size} ranks over {arguments.backend}"
    save_picture(arguments.out, history, validation, title)
    print(f"loss, step time and views: {arguments.out}")
    if arguments.losses:
        arguments.losses.write_text(json.dumps({**history, "validation": validation}))


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    prepared = prepare(arguments)
    dist.init_process_group(arguments.backend)
    if dist.get_rank() == 0:
        tell_plan(arguments)
    train(arguments, prepared)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
