"""Tensor parallel: the all_reduce of one block beside the next block's computation.

    holdfast run -n 2 examples/overlapped_tp.py --link-ms 5 --picture ladder.png

In a plain transformer each block waits for the sum of the block before it over all ranks. With the
Ladder residual it computes on what was there one block earlier, and that sum has a whole block's
time to come; backward likewise. It is another model, so both are trained from the same parameters:
what a step takes, how long ranks stood still in it, and the loss. Ranks of one machine are near
each other; --link-ms has each sum take so much longer, as if they were not.

After Zhang et al., "Ladder-residual", 2025, arXiv:2501.06589, and for the cut of attention and
network Shoeybi et al., "Megatron-LM", 2019, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 128, 4, 4, 8
VOCABULARY = 128  # ASCII
LEARNING_RATE = 2e-3


class Link:
    """Sums over all ranks, each at least so long under way; counts how long this rank waits."""

    def __init__(self, least_s: float) -> None:
        self.least_s = least_s
        self.waited_s = 0.0

    def begin(self, part: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin to sum, in place; what is returned waits for the sum."""
        due = time.monotonic() + self.least_s
        work = dist.all_reduce(part, async_op=True)

        def wait() -> torch.Tensor:
            began = time.monotonic()
            work.wait()
            time.sleep(max(0.0, due - time.monotonic()))
            self.waited_s += time.monotonic() - began
            return part

        return wait


def climb(
    x: torch.Tensor, blocks: Iterable[Callable], begin: Callable, ladder: bool
) -> torch.Tensor:
    """Add up what blocks make of x, each summed over all ranks: at once, or one block later."""
    waiting = None
    for block in blocks:
        part = block(x)  # beside the sum of the block before
        if waiting:
            x = x + waiting()
        waiting = begin(part)
        if not ladder:
            x, waiting = x + waiting(), None
    return x + waiting() if waiting else x


class Trunk(torch.autograd.Function):
    """All blocks: gradients climb down as activations climb up, and their sums wait alike.

    A block's input gradient is a sum over ranks as its output is, and the block that is below
    needs, of a ladder's gradients, those without the last sum.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, blocks: nn.ModuleList, link: Link, ladder: bool) -> Any:
        ctx.made, ctx.link, ctx.ladder = [], link, ladder

        def run(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                ctx.made.append((x, block(x)))
            return ctx.made[-1][1].detach().clone()

        return climb(x, [lambda x, b=block: run(b, x) for block in blocks], link.begin, ladder)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        def run(x: torch.Tensor, made: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
            made.backward(gradient)
            return x.grad

        steps = [lambda g, x=x, made=made: run(x, made, g) for x, made in reversed(ctx.made)]
        return climb(gradient, steps, ctx.link.begin, ctx.ladder), None, None, None


class Cut(NamedTuple):
    """Which part of every block is this rank's."""

    rank: int
    ranks: int

    def weight(self, rows: int, columns: int, dim: int, parts: int = 1) -> nn.Parameter:
        """Make a whole matrix as every rank does, and keep this rank's part of it."""
        whole = torch.randn(rows, columns) * columns**-0.5
        mine = [each.chunk(self.ranks, dim)[self.rank] for each in whole.chunk(parts)]
        return nn.Parameter(torch.cat(mine).clone())


class Attention(nn.Module):
    """Some of the heads."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.mix = cut.weight(3 * WIDTH, WIDTH, 0, parts=3)
        self.out = cut.weight(WIDTH, WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        mixed = functional.layer_norm(x, (WIDTH,)) @ self.mix.T
        parts = mixed.view(batch, length, 3, -1, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return seen.transpose(1, 2).reshape(batch, length, -1) @ self.out.T


class Network(nn.Module):
    """Some of the hidden units."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.up, self.down = cut.weight(4 * WIDTH, WIDTH, 0), cut.weight(WIDTH, 4 * WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(functional.layer_norm(x, (WIDTH,)) @ self.up.T) @ self.down.T


class GPT(nn.Module):
    """Predicts the next character; embedding and head are whole on every rank."""

    def __init__(self, cut: Cut, link: Link, ladder: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        kinds = (Attention, Network) * LAYERS
        self.blocks = nn.ModuleList(kind(cut) for kind in kinds)
        self.link, self.ladder = link, ladder

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.characters(tokens) + self.positions.weight
        x = Trunk.apply(x, self.blocks, self.link, self.ladder)
        return self.head(functional.layer_norm(x, (WIDTH,)))


class Training:
    """One of the two models, and what its steps gave."""

    def __init__(self, ladder: bool, least_s: float) -> None:
        self.link = Link(least_s)
        self.model = GPT(Cut(dist.get_rank(), dist.get_world_size()), self.link, ladder)
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE)
        self.losses: list[float] = []
        self.step_ms: list[float] = []
        self.waited_ms: list[float] = []

    def step(self, windows: torch.Tensor) -> None:
        began, waited = time.monotonic(), self.link.waited_s
        found = self.model(windows[:, :-1])
        loss = functional.cross_entropy(found.flatten(0, 1), windows[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(float(loss.detach()))
        self.step_ms.append(1000 * (time.monotonic() - began))
        self.waited_ms.append(1000 * (self.link.waited_s - waited))

    @property
    def figures(self) -> tuple[float, float, float]:
        """Milliseconds a step, of these how many this rank stood still (medians), and the loss."""
        last = statistics.mean(self.losses[-20:])
        return statistics.median(self.step_ms), statistics.median(self.waited_ms), last


def train(steps: int, least_s: float) -> dict[str, Training]:
    """Train both in turns, so that what else the machine does slows both; the same batches."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    data = torch.frombuffer(bytearray(text, "ascii", "replace"), dtype=torch.uint8).long()
    chance = torch.Generator().manual_seed(1)
    both = {"plain": Training(False, least_s), "ladder": Training(True, least_s)}
    for _ in range(steps):
        starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=chance)
        windows = torch.stack([data[start : start + CONTEXT + 1] for start in starts])
        for training in both.values():
            training.step(windows)
    return both


def save_picture(path: Path, both: dict[str, Training]) -> None:
    """Draw losses over steps and over time, and what a step takes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.5), layout="constrained")
    for name, training in both.items():
        means = torch.tensor(training.losses).unfold(0, 20, 1).mean(1)
        steps = torch.arange(20, len(training.losses) + 1)
        step_ms, waited_ms, _ = training.figures
        axes[0].plot(steps, means, label=name)
        axes[1].plot(steps * step_ms / 1000, means, label=name)
        computed = axes[2].bar(name, step_ms - waited_ms, color="tab:gray")
        stood = axes[2].bar(name, waited_ms, bottom=step_ms - waited_ms, color="tab:red")
    axes[0].set(xlabel="step", ylabel="loss (nats per character)")
    axes[1].set(xlabel="seconds")
    axes[2].set(ylabel="ms a step")
    axes[0].legend()
    axes[2].legend([computed, stood], ["computed", "stood still"], loc="lower center")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--link-ms", type=float, default=0, help="that a sum takes at least")
    parser.add_argument("--picture", type=Path, help="where to draw, such as ladder.png")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    both = train(arguments.steps, arguments.link_ms / 1000)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks   ms a step   of these stood still   loss")
        for name, training in both.items():
            print("{:7} {:11.1f} {:22.1f} {:6.3f}".format(name, *training.figures))
        if arguments.picture:
            save_picture(arguments.picture, both)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
