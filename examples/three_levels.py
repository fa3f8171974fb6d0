"""FSDP2 over slow lines: parameters stay in the host, gradients in the site, a codec between sites.

    holdfast run -n 8 examples/three_levels.py --map sites.json --codec int8
    holdfast run -n 8 examples/three_levels.py --levels 2     (HSDP: in a site, across sites)
    holdfast run -n 8 examples/three_levels.py --levels 1     (flat FSDP2)

With HOLDFAST_TRANSPORTS=tcp ranks of one machine speak over links, too, and bytes are counted.

Without a map there are two sites of two hosts each. Every level is a dimension of a device mesh:
`holdfast.topology.partition` finds them in the map of links. With three levels parameters are
gathered inside of a host only; once a step gradients are summed up outwards, each rank updates a
part of the model, and parameters are gathered inwards. Every step's batch is split over all ranks,
so the loss at the end must be that of a single process, which is trained as well.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import holdfast
import holdfast.topology
from holdfast.ft.health.collector import HoldfastCollector
from holdfast.topology import Partition

CONTEXT, WIDTH, HEADS, LAYERS = 64, 96, 4, 3
VOCABULARY = 128  # ASCII
BATCH = 16  # divides by 1, 2, 4 and 8
LEARNING_RATE = 1e-3
EXACT, CODED = 1e-4, 0.05  # of the loss: how far it may be from a single process's
LINK_BYTES = "holdfast_link_bytes_total"


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


def load_text() -> torch.Tensor:
    """Return CPython's own documentation, which every Python carries, as numbers."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return torch.frombuffer(bytearray(text, "ascii", "replace"), dtype=torch.uint8).long()


def loss_of(model: nn.Module, data: torch.Tensor, step: int, part: slice) -> torch.Tensor:
    """Mean cross entropy of a part of the step's batch."""
    chance = torch.Generator().manual_seed(step)
    starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=chance)[part]
    windows = torch.stack([data[s : s + CONTEXT + 1] for s in starts])
    return nn.functional.cross_entropy(
        model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
    )


def two_sites(ranks: int) -> str:
    """Return a map: two sites of two hosts with the same number of ranks."""
    levels = [("site", 2, 0.2, 10000), ("host", 2, 1, 100), ("rank", ranks // 4, 10, 10)]
    keys = ("name", "count", "gbit_per_s", "alpha_us")
    return json.dumps({"format": 1, "levels": [dict(zip(keys, v, strict=True)) for v in levels]})


def sent_to(ranks: set[int]) -> float:
    """Bytes that went over this rank's links to others.

    A group with options of its own, the outermost level's with a codec, counts as another node of
    this process, and has no ranks but those.
    """
    return sum(
        sample.value
        for metric in HoldfastCollector().collect()
        for sample in metric.samples
        if sample.name == LINK_BYTES
        and sample.labels["direction"] == "sent"
        and (sample.labels.get("node", "0") != "0" or int(sample.labels["peer"]) in ranks)
    )


class OuterLevels:
    """What is outside of the innermost level: sums of gradients, and an update of a part each.

    The optimiser's states are sharded, and what each rank has updated is gathered (Rajbhandari et
    al., "ZeRO", 2020, section 5.2).
    """

    def __init__(self, model: nn.Module, parts: Partition, mesh: DeviceMesh) -> None:
        self.local = [p.detach().to_local() for p in model.parameters()]
        self.model = model
        self.outermost = mesh.get_group(parts.names[0])
        self.middle = [mesh.get_group(name) for name in reversed(parts.optimizer[:-1])]
        whole = torch.cat([part.flatten() for part in self.local])
        count, place = 1, 0
        for group in self.middle:  # reduce_scatter cuts in halves, then in halves of these
            count *= group.size()
            place = place * group.size() + group.rank()
        self.padding = -len(whole) % count
        mine = nn.functional.pad(whole, (0, self.padding)).chunk(count)[place].clone()
        self.part = nn.Parameter(mine)
        self.optimizer = torch.optim.Adam([self.part], LEARNING_RATE)

    @torch.no_grad()
    def step(self) -> None:
        local = [p.grad.to_local().flatten() for p in self.model.parameters()]
        summed = nn.functional.pad(torch.cat(local), (0, self.padding))
        for group in self.middle:
            piece = summed.new_empty(len(summed) // group.size())
            dist.reduce_scatter(piece, list(summed.chunk(group.size())), dist.ReduceOp.AVG, group)
            summed = piece
        dist.all_reduce(summed, dist.ReduceOp.AVG, self.outermost)
        self.part.grad = summed
        self.optimizer.step()
        gathered = self.part.detach()
        for group in reversed(self.middle):
            whole = gathered.new_empty(len(gathered) * group.size())
            dist.all_gather(list(whole.chunk(group.size())), gathered, group)
            gathered = whole
        sizes = [part.numel() for part in self.local]
        for part, new in zip(self.local, gathered.split([*sizes, self.padding]), strict=False):
            part.copy_(new.view_as(part))

    def zero_grad(self) -> None:
        self.model.zero_grad()


def shard(model: GPT, parts: Partition, mesh: DeviceMesh) -> torch.optim.Optimizer:
    """Shard the model, and return what updates it: one and two levels are FSDP2's own."""
    over = mesh if len(parts.names) < 3 else mesh[parts.parameters]
    for part in (*model.blocks, model):
        fully_shard(part, mesh=over)
    if len(parts.names) < 3:
        return torch.optim.Adam(model.parameters(), LEARNING_RATE)
    return OuterLevels(model, parts, mesh)


def make_model() -> GPT:
    torch.manual_seed(0)
    return GPT()


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Tensor, step: int, part: slice
) -> torch.Tensor:
    """Train one step on a part of its batch; return the loss there."""
    loss = loss_of(model, data, step, part)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def train(parts: Partition, codec: str, steps: int, data: torch.Tensor) -> float:
    """Train on the mesh; print what it took, and return the mean loss of the last step."""
    options = {parts.names[0]: holdfast.Options(codec=codec)} if codec else {}
    mesh = holdfast.topology.device_mesh(parts, pg_options=options)
    model = make_model()
    size = sum(p.numel() for p in model.parameters())
    optimizer = shard(model, parts, mesh)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    inside = next(group for group in parts.groups(parts.optimizer) if rank in group)
    outside = set(range(ranks)) - set(inside)
    loss = update(model, optimizer, data, 0, mine)  # the first step also allocates
    before, start = sent_to(outside), time.monotonic()
    for step in range(1, steps):
        loss = update(model, optimizer, data, step, mine)
    spent = (time.monotonic() - start) / (steps - 1)
    crossed = torch.tensor((sent_to(outside) - before) / (steps - 1))
    dist.all_reduce(crossed)
    dist.all_reduce(loss, dist.ReduceOp.AVG)
    if rank == 0:
        shape = " x ".join(f"{n} {name}" for n, name in zip(parts.shape, parts.names, strict=True))
        print(f"{shape}: {spent * 1e3:.0f} ms a step")
        if len(parts.names) > 1:
            told = parts.bytes_out(4 * size)[parts.names[0]] * parts.shape[0]
            print(  # ranks of one machine speak through its memory, not over links
                f"{parts.names[0]} to {parts.names[0]}: {crossed / 1e6:.2f} MB a step over links, "
                f"{told / 1e6:.2f} without a codec by the partition"
            )
    return float(loss)


def train_alone(steps: int, data: torch.Tensor) -> float:
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    for step in range(steps):
        loss = update(model, optimizer, data, step, slice(None))
    return float(loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--map", type=Path, help="of links, with domains; default: two sites")
    parser.add_argument("--levels", type=int, default=3, choices=(1, 2, 3))
    parser.add_argument("--codec", default="", help="between the outermost domains, such as int8")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="holdfast", help="holdfast or gloo")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # The logits are a view, which nobody changes in place.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    dist.init_process_group(arguments.backend)
    text = arguments.map.read_text() if arguments.map else two_sites(dist.get_world_size())
    parts = holdfast.topology.partition(text, arguments.levels)
    data = load_text()
    loss = train(parts, arguments.codec, arguments.steps, data)
    alone = train_alone(arguments.steps, data) if dist.get_rank() == 0 else loss
    assert abs(loss - alone) < (CODED if arguments.codec else EXACT) * alone, (loss, alone)
    if dist.get_rank() == 0:
        print(f"loss {loss:.5f}, a single process has {alone:.5f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
