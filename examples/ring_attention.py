"""Ring self-attention: a sequence that is split over ranks, by send and receive alone.

    holdfast run -n 4 examples/ring_attention.py
    torchrun --nproc-per-node 4 examples/ring_attention.py --causal

Blocks of keys and values go round the ring; each rank computes with the block that it has while the
next one is on its way, and none holds the whole sequence: Liu, Zaharia, Abbeel, "Ring Attention
with Blockwise Transformers for Near-Infinite Context", 2023, arXiv:2310.01889, section 3. In
backward the gradients of a block travel with it, and are at home after a whole round. Output and
gradients are compared with those of a single process that has the whole sequence.
"""

from __future__ import annotations

import argparse
import math

import torch
import torch.distributed as dist

TOLERANCE = 1e-10  # of float64


class Shift:
    """One step of the ring under way: a tensor goes to the next rank, another comes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        self.sent, self.received = tensor, torch.empty_like(tensor)
        send = dist.isend(self.sent, (rank + 1) % size)
        self.works = (send, dist.irecv(self.received, (rank - 1) % size))

    def wait(self) -> torch.Tensor:
        for work in self.works:
            work.wait()
        return self.received


def scores(q: torch.Tensor, k: torch.Tensor, block: int, causal: bool) -> torch.Tensor | None:
    """Scaled scores of the queries here and the keys of a block; None where all are masked."""
    rank, length = dist.get_rank(), q.shape[-2]
    if causal and block > rank:
        return None
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal and block == rank:
        s = s.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
    return s


class RingAttention(torch.autograd.Function):
    """Attention of this rank's queries to the keys and values of all; (heads, length, width)."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        rank, size = dist.get_rank(), dist.get_world_size()
        out, log_sum = torch.zeros_like(q), torch.full((*q.shape[:-1], 1), -math.inf, dtype=q.dtype)
        kv = torch.stack([k, v])
        for step in range(size):
            shift = Shift(kv) if step < size - 1 else None
            s = scores(q, kv[0], (rank - step) % size, causal)
            if s is not None:
                # Softmax block by block: parts are weighed by the sums of their exponentials.
                of_block = s.logsumexp(-1, keepdim=True)
                both = torch.logaddexp(log_sum, of_block)
                out = out * (log_sum - both).exp() + (s - both).exp() @ kv[1]
                log_sum = both
            kv = kv if shift is None else shift.wait()
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, d_out):
        rank, size = dist.get_rank(), dist.get_world_size()
        q, k, v, out, log_sum = ctx.saved_tensors
        dq, kv, d_kv = torch.zeros_like(q), torch.stack([k, v]), q.new_zeros(2, *k.shape)
        row = (d_out * out).sum(-1, keepdim=True)
        for step in range(size):
            shift = Shift(kv)
            s = scores(q, kv[0], (rank - step) % size, ctx.causal)
            if s is not None:
                p = (s - log_sum).exp()
                ds = p * (d_out @ kv[1].transpose(-1, -2) - row) / math.sqrt(q.shape[-1])
                dq += ds @ kv[0]
                d_kv[0] += ds.transpose(-1, -2) @ q
                d_kv[1] += p.transpose(-1, -2) @ d_out
            kv, d_kv = shift.wait(), Shift(d_kv).wait()
        return dq, d_kv[0], d_kv[1], None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=256, help="of each rank's part")
    parser.add_argument("--causal", action="store_true", help="nobody sees what comes later")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    shape = (4, size * arguments.length, 32)
    whole = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    d_out = torch.randn(shape, dtype=torch.float64)
    part = slice(rank * arguments.length, (rank + 1) * arguments.length)
    mine = [x.detach()[:, part].clone().requires_grad_() for x in whole]

    out = RingAttention.apply(*mine, arguments.causal)
    out.backward(d_out[:, part])
    wanted = torch.nn.functional.scaled_dot_product_attention(*whole, is_causal=arguments.causal)
    wanted.backward(d_out)
    pairs = [(out, wanted), *((a.grad, b.grad) for a, b in zip(mine, whole, strict=True))]
    error = torch.stack([(a - b[:, part]).abs().max() for a, b in pairs]).max().detach()
    dist.all_reduce(error, op=dist.ReduceOp.MAX)
    assert error < TOLERANCE, error
    if rank == 0:
        kind = "causal attention" if arguments.causal else "attention"
        print(
            f"{kind} over {shape[1]} positions on {size} ranks: output and gradients are a single "
            f"process's to {error:.0e}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
