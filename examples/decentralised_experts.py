"""Experts on islands that exchange nothing while they train, and one site that samples from all.

    python examples/decentralised_experts.py --picture experts.png
    python examples/decentralised_experts.py --kill 2

It needs holdfast[torch,learning,plot,prometheus].

k-means cuts scikit-learn's digits (8 x 8 pixels) into as many parts as there are islands, each a
process. They meet once, to agree on who has which part, and leave: each trains an expert on its own
part by flow matching, and hears of nobody. At the end the site that samples takes over their
weights, and trains a router, which says of noisy pixels whose they are. With --kill one island is
ended by kill -9 half way: it is left out, and the others' digits are drawn.

The measure is the energy distance of samples to digits that nobody has trained on, beside that of
one model of the same shape with the same total computation: as many steps, each of the batches of
all islands together and a quarter more, which is what the router takes.

After McAllister et al., "Decentralized Diffusion Models", 2025, arXiv:2501.05450, and Lipman et
al., "Flow Matching for Generative Modeling", 2022, arXiv:2210.02747.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import nn

import holdfast
from holdfast.ft.health.collector import HoldfastCollector

PIXELS, BATCH, LEARNING_RATE = 64, 64, 3e-3
HELD_OUT, SAMPLING_STEPS = 400, 40
BOUND = 1.10  # energy distance of the experts' samples by that of one model's
# Processes of one host would meet in its memory; islands are far from each other.
FAR = holdfast.Options(transports=("tcp",))
FORK = multiprocessing.get_context("fork")

Field = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Choice = Callable[[torch.Tensor], torch.Tensor]


class Network(nn.Module):
    """Velocities of pixels, or scores of islands, at a time between 0 (noise) and 1 (digits)."""

    def __init__(self, outputs: int = PIXELS, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(PIXELS + 17, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()),
            *(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, outputs)),
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        waves = time * math.pi * 2.0 ** torch.arange(-1, 7)
        return self.layers(torch.cat([x, time, waves.sin(), waves.cos()], 1))


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Return digits to train on, and those that are held out; pixels are in -1 to 1."""
    digits = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(0))
    return digits[order[HELD_OUT:]], digits[order[:HELD_OUT]]


def train(
    data: torch.Tensor,
    steps: int,
    batch: int,
    seed: int,
    at: Callable[[int], None] = lambda step: None,
    parts: torch.Tensor | None = None,
) -> Network:
    """Fit velocities of straight lines from noise to digits, or with `parts` whose digits it is."""
    torch.manual_seed(seed)
    network = Network() if parts is None else Network(int(parts.max()) + 1, 128)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        at(step)
        chosen = torch.randint(len(data), (batch,))
        end, time = data[chosen], torch.rand(batch, 1)
        noise = torch.randn_like(end)
        found = network((1 - time) * noise + time * end, time)
        if parts is None:
            loss = nn.functional.mse_loss(found, end - noise)
        else:
            loss = nn.functional.cross_entropy(found, parts[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


# ---- an island -----------------------------------------------------------------------------------


def link_bytes() -> float:
    """Bytes that went over this process's links in either direction, as Holdfast counts them."""
    samples = [each for metric in HoldfastCollector().collect() for each in metric.samples]
    return sum(each.value for each in samples if each.name == "holdfast_link_bytes_total")


def network_sockets() -> int:
    """Sockets of TCP and UDP that this process has, by the kernel's tables."""
    tables = [path for kind in ("tcp*", "udp*") for path in Path("/proc/net").glob(kind)]
    rows = [line.split() for path in tables for line in path.read_text().splitlines()[1:]]
    known = {f"socket:[{row[9]}]" for row in rows}
    mine = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(str(path.readlink()) in known for path in mine)


def meet(url: str, islands: int) -> tuple[int, torch.Tensor, float]:
    """Agree with the other islands on who has which part: its number, and what all centres are."""
    centres = torch.zeros(islands, PIXELS)
    with holdfast.join(f"{url}/islands", min_peers=islands, options=FAR) as group:
        if group.rank == 0:
            found = KMeans(islands, n_init=4, random_state=0).fit(load()[0].numpy())
            centres.copy_(torch.from_numpy(found.cluster_centers_))
        group.broadcast(centres, root=0)
    return group.rank, centres, link_bytes()


def train_island(url: str, arguments: argparse.Namespace) -> None:
    """Take a part of the digits, train on it alone, and give the expert away."""
    # In a process of its own: when it has ended, no connection is left, and no heartbeat goes.
    with FORK.Pool(1) as once:
        number, centres, met = once.apply(meet, (url, arguments.islands))
    digits = load()[0]
    digits = digits[torch.cdist(digits, centres).argmin(1) == number]
    seen = []

    def at(step: int) -> None:
        if number == arguments.kill and step == arguments.steps // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if step % 20 == 0:
            seen.append(network_sockets())

    expert = train(digits, arguments.steps, BATCH, number, at)
    figures = torch.tensor([float(len(digits)), met, link_bytes(), max(seen)])
    with holdfast.join(f"{url}/island-{number}", min_peers=2, options=FAR, timeout=600) as group:
        for tensor in (*expert.parameters(), centres, figures):
            group.send(tensor.detach(), 1 - group.rank)


# ---- the site that samples -----------------------------------------------------------------------


def gather(url: str, arguments: argparse.Namespace) -> tuple[dict[int, Network], torch.Tensor]:
    """Take over the experts of the islands that are still there, and the centres of all."""
    experts, centres = {}, torch.zeros(arguments.islands, PIXELS)
    print("island  digits   bytes to meet   bytes while training   sockets then   bytes to gather")
    for number in range(arguments.islands):
        name, before = f"{url}/island-{number}", link_bytes()
        try:
            group = holdfast.join(name, min_peers=2, options=FAR, timeout=arguments.patience)
        except holdfast.Timeout:
            print(f"{number:6}  is lost, and left out", flush=True)
            continue
        figures, expert = torch.zeros(4), Network()
        with group:
            for tensor in (*expert.parameters(), centres, figures):
                group.recv(tensor.detach(), 1 - group.rank)
            came = link_bytes() - before
        experts[number] = expert
        digits, met, training, sockets = map(int, figures)
        print(f"{number:6} {digits:7} {met:15,} {training:22,} {sockets:14} {came:17,}")
        assert training == sockets == 0, f"island {number} was not alone as it trained"
    return experts, centres


def mix(experts: dict[int, Network], router: Network, choose: Choice | None = None) -> Field:
    """Make one velocity field of all experts, by shares or by a choice of one for each sample."""

    def field(x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        shares = router(x, time)[:, list(experts)].softmax(1)  # who is lost has none
        if choose:
            shares = torch.zeros_like(shares).scatter_(1, choose(shares), 1.0)
        velocity = torch.zeros_like(x)
        for share, expert in zip(shares.T, experts.values(), strict=True):
            rows = share > 0
            velocity[rows] += share[rows, None] * expert(x[rows], time[rows])
        return velocity

    return field


@torch.no_grad()
def sample(field: Field, count: int) -> torch.Tensor:
    """Follow a velocity field from noise, by Euler's steps."""
    torch.manual_seed(1)
    x = torch.randn(count, PIXELS)
    for step in range(SAMPLING_STEPS):
        x += field(x, torch.full((count, 1), step / SAMPLING_STEPS)) / SAMPLING_STEPS
    return x


def energy_distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Between two sets of points (Szekely and Rizzo, "Energy statistics", 2013, section 2)."""
    between, within_a, within_b = (torch.cdist(*pair).mean() for pair in ((a, b), (a, a), (b, b)))
    return float(2 * between - within_a - within_b)


def save_picture(path: Path, rows: dict[str, tuple[torch.Tensor, float]]) -> None:
    """Draw some digits of each kind, and the energy distances."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(rows), 1, figsize=(8, len(rows)), layout="constrained")
    for drawn, (name, (digits, distance)) in zip(axes, rows.items(), strict=True):
        drawn.imshow(
            digits[:16].view(16, 8, 8).transpose(0, 1).flatten(1), "gray_r", vmin=-1, vmax=1
        )
        drawn.set(xticks=[], yticks=[])
        drawn.set_title(f"{name}: energy distance {distance:.4f}", fontsize=9, loc="left")
    figure.savefig(path, dpi=100)


def compare(url: str, arguments: argparse.Namespace) -> None:
    """Train one model on everything meanwhile, gather the experts, and measure."""
    digits, held_out = load()
    whole = arguments.islands * BATCH
    one = train(digits, arguments.steps, whole * 5 // 4, arguments.islands)
    experts, centres = gather(url, arguments)
    parts = torch.cdist(digits, centres).argmin(1)
    router = train(digits, arguments.steps, whole, arguments.islands + 1, parts=parts)
    fields = {
        "one model": one,
        "all": mix(experts, router),
        "top-1, drawn": mix(experts, router, lambda shares: shares.multinomial(1)),
        # From pure noise the likeliest is the same for all: the island with the most digits.
        "top-1, likeliest": mix(experts, router, lambda shares: shares.argmax(1, keepdim=True)),
    }
    rows = {"digits trained on": digits, "noise": torch.randn(arguments.samples, PIXELS)}
    rows |= {name: sample(field, arguments.samples) for name, field in fields.items()}
    drawn = {name: (points, energy_distance(points, held_out)) for name, points in rows.items()}
    base, noise = drawn["one model"][1], drawn["noise"][1]
    print("\nsamples by           energy distance to held-out digits   of one model's")
    for name, (_, distance) in drawn.items():
        print(f"{name:20} {distance:35.4f} {distance / base:16.2f}")
    if arguments.picture:
        save_picture(arguments.picture, drawn)
    most = BOUND * base if len(experts) == arguments.islands else 0.25 * noise
    for name in ("all", "top-1, drawn"):
        assert drawn[name][1] <= most, (name, drawn[name][1], most)
    print(f"digits were drawn by {len(experts)} of {arguments.islands} islands")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--islands", type=int, default=4)
    told = (
        f"of each island; what is asserted, at most {BOUND} of one model's, holds from 300 to 1500"
    )
    parser.add_argument("--steps", type=int, default=800, help=told)
    parser.add_argument("--samples", type=int, default=2000, help="to draw each way")
    parser.add_argument("--kill", type=int, metavar="ISLAND", help="end it with SIGKILL half way")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for an island")
    parser.add_argument("--picture", type=Path, help="where to draw samples, such as experts.png")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    command = [sys.executable, "-m", "holdfast.cli", "coordinator", "--port", "0"]
    command += ["--address", "127.0.0.1", "--grace", "0"]  # no group was here before
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    coordinator = subprocess.Popen(command, text=True, **quiet)
    url = "holdfast://127.0.0.1:" + re.search(r"port (\d+)", coordinator.stdout.readline()).group(1)
    islands = [
        FORK.Process(target=train_island, args=(url, arguments)) for _ in range(arguments.islands)
    ]
    torch.optim.Adam(Network().parameters())  # imports what islands would import one by one
    try:
        for island in islands:
            island.start()
        compare(url, arguments)
    finally:
        for process in (*islands, coordinator):
            process.kill()


if __name__ == "__main__":
    main()
