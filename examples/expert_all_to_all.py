"""A mixture of experts: tokens travel to their experts and back by all_to_all_single with splits.

    holdfast run -n 4 examples/expert_all_to_all.py
    torchrun --nproc-per-node 4 examples/expert_all_to_all.py

One expert lives on each rank. A router picks one for every token, so ranks send each other
different numbers of tokens: they tell the numbers first, and then send the tokens. All of it is
differentiable. Output and gradients must be those of a dense computation, in which every rank has
all experts: a rank's expert gets the gradients of all ranks' tokens.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 32
TOLERANCE = 1e-12  # of float64


class Exchange(torch.autograd.Function):
    """Rows to and from all ranks; in backward their gradients go the other way."""

    @staticmethod
    def forward(ctx, x, take, give):
        ctx.splits = give, take
        received = x.new_empty(sum(take), x.shape[1])
        dist.all_to_all_single(received, x.contiguous(), take, give)
        return received

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient, *ctx.splits), None, None


def expert(number: int) -> nn.Module:
    torch.manual_seed(1 + number)
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)).double()


def router() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(WIDTH, dist.get_world_size()).double()


def tokens(rank: int, count: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(1000 + rank)
    return torch.randn(count, WIDTH, dtype=torch.float64, generator=chance)


def choose(gate: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each token its expert, and the weight of the expert's word."""
    weight, number = gate(x).softmax(1).max(1, keepdim=True)
    return weight, number.flatten()


def spread(gate: nn.Module, mine: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Have each token computed where its expert is; also how many came here."""
    weight, number = choose(gate, x)
    order = number.argsort(stable=True)
    give = number.bincount(minlength=dist.get_world_size())
    take = torch.empty_like(give)
    dist.all_to_all_single(take, give)
    give, take = give.tolist(), take.tolist()
    came = Exchange.apply(x[order], take, give)
    back = Exchange.apply(mine(came), give, take)
    return weight * torch.empty_like(x).index_copy(0, order, back), len(came)


def dense(gate: nn.Module, experts: list[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """The same, where all experts are."""
    weight, number = choose(gate, x)
    every = torch.stack([one(x) for one in experts])
    return weight * every[number, torch.arange(len(x))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=200, help="on each rank")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    rank, size = dist.get_rank(), dist.get_world_size()

    gate, mine = router(), expert(rank)
    out, came = spread(gate, mine, tokens(rank, arguments.tokens))
    out.square().sum().backward()

    everyone, experts = router(), [expert(number) for number in range(size)]
    wanted = [dense(everyone, experts, tokens(r, arguments.tokens)) for r in range(size)]
    torch.stack(wanted).square().sum().backward()
    pairs = [(out, wanted[rank])]
    for one, other in zip(mine.parameters(), experts[rank].parameters(), strict=True):
        pairs.append((one.grad, other.grad))
    for one, other in zip(gate.parameters(), everyone.parameters(), strict=True):
        dist.all_reduce(one.grad)  # the router is on all ranks
        pairs.append((one.grad, other.grad))
    error = torch.stack([(a - b).abs().max() / b.abs().max() for a, b in pairs]).max().detach()
    dist.all_reduce(error, op=dist.ReduceOp.MAX)
    assert error < TOLERANCE, error
    loads = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(loads, torch.tensor([came]))
    if rank == 0:
        print(
            f"{size * arguments.tokens} tokens, {[int(n) for n in loads]} of them to the experts: "
            f"output and gradients are the dense ones to {error:.0e}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
