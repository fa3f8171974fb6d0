"""Communication hooks of your own for DDP: int8 with error feedback, and bfloat16.

    holdfast run -n 2 examples/comm_hook.py    (torchrun --nproc-per-node 2 examples/comm_hook.py)

`Int8` is a reducer of holdfast.compress in 20 lines: it has residuals that are committed with their
op, never twice, and overlaps with backward. `to_bfloat16` is a plain hook of torch's.

What is left out of one step is added to the next (Karimireddy et al., "Error Feedback Fixes SignSGD
and other Gradient Compression Schemes", ICML 2019, arXiv:1901.09847, Algorithm 1). So over any
number of steps the sum of what `Int8` returned differs from the sum of exact means by no more than
a mean residual, half a step of the 8-bit grid: that is the bound that is checked here.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import holdfast.compress

LEVELS = 127


class Int8(holdfast.compress.Reducer):
    """Sends a byte an element, and a scale a tensor; keeps what the bytes do not say."""

    half_step = 0.0  # the largest that there was on this rank

    def reduction(self, gradients):
        """Average gradients in place: begin an op, yield it to be waited for, go on."""
        for name, gradient in gradients:
            residual = self.residuals.get(name, gradient.shape, gradient.dtype, gradient.device)
            wanted = gradient + residual
            scale = wanted.abs().max().clamp(min=1e-30) / LEVELS
            sent = (wanted / scale).round().to(torch.int8)
            message = torch.cat([scale.view(1).view(torch.int8), sent.flatten()])
            rows = message.new_empty(self.exchange.size, message.numel())
            try:
                yield self.exchange.gather(rows, message)
            except BaseException:
                self.residuals.rollback(name)  # the residual is as it was before
                raise
            rows = rows[list(self.exchange.members)]
            scales = rows[:, :4].contiguous().view(torch.float32)
            gradient.copy_((rows[:, 4:] * scales).mean(0).view_as(gradient))
            self.residuals.commit(name, wanted - sent * scale)
            self.half_step = max(self.half_step, scale.item() / 2)


def to_bfloat16(group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average a bucket as bfloat16, half the bytes: a plain hook."""
    small = bucket.buffer().to(torch.bfloat16)
    work = dist.all_reduce(small, op=dist.ReduceOp.AVG, group=group, async_op=True)
    return work.get_future().then(lambda done: bucket.buffer().copy_(done.value()[0]))


def difference_of_sums(steps: int) -> tuple[float, float]:
    """Largest difference to the sum of exact means, and the bound."""
    reducer = Int8()
    chance = torch.Generator().manual_seed(dist.get_rank())
    difference = torch.zeros(1000, dtype=torch.float64)
    for _ in range(steps):
        gradient = torch.randn(1000, generator=chance)
        exact = gradient.double()
        dist.all_reduce(exact, op=dist.ReduceOp.AVG)
        difference += reducer("a tensor", gradient) - exact
    bound = torch.tensor(reducer.half_step)
    dist.all_reduce(bound, op=dist.ReduceOp.MAX)
    # Of each rank's half step the mean would do; float32 rounds each step's numbers once more.
    return difference.abs().max().item(), bound.item() + 1e-6 * steps


def final_loss(how: str, steps: int) -> float:
    """Train with DDP; the loss over what all ranks have seen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 1))
    ddp = DistributedDataParallel(model)
    if how == "int8":
        holdfast.compress.register(ddp, Int8())
    elif how == "bfloat16":
        ddp.register_comm_hook(None, to_bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    chance = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        x = torch.randn(64, 32, generator=chance)
        loss = nn.functional.mse_loss(ddp(x), x.sum(1, keepdim=True).tanh())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    dist.init_process_group("holdfast")
    difference, bound = difference_of_sums(steps)
    assert difference <= bound, (difference, bound)
    plain, int8, bfloat16 = (final_loss(how, steps) for how in ("none", "int8", "bfloat16"))
    assert abs(int8 - plain) < 0.02 * plain, (int8, plain)
    assert abs(bfloat16 - plain) < 0.02 * plain, (bfloat16, plain)
    if dist.get_rank() == 0:
        print(
            f"sums of {steps} int8 means are off by {difference:.4f}, the bound is {bound:.4f}; "
            f"loss {plain:.5f} uncompressed, {int8:.5f} int8, {bfloat16:.5f} bfloat16"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
