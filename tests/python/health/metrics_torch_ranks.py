"""What ranks of torch do whose reducers, optimisers and DDP are counted."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from health_ranks import await_file, samples, scrape, total
from metrics_ranks import grown
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch_world import join

import holdfast
from holdfast import _process, compress

LEFT_OUT = 'holdfast_reducer_residual_norm{method="PowerSGD"}'
STEPS = 3


def reduce_by_powersgd(address: str, gradient: Tensor, exchange: compress.Exchange) -> None:
    """The residual is told of after the first step, the bytes after each."""
    rank = 2
    reducer = compress.PowerSGD(rank, exchange=exchange)
    first = grown(address, lambda: reducer("w", gradient.clone()))
    left = reducer.residuals.peek("w")
    assert left is not None
    assert np.isclose(first[LEFT_OUT], float(left.norm()), rtol=1e-5)
    assert 0.5 < first[LEFT_OUT] / float(gradient.norm()) < 1
    saved = grown(address, lambda: [reducer("w", gradient.clone()) for _ in range(STEPS)])
    # Two ranks: an average costs each of them its own bytes once.
    method = '{method="PowerSGD"}'
    assert saved[f"holdfast_reducer_raw_bytes_total{method}"] == STEPS * 4 * gradient.numel()
    factors = rank * sum(gradient.shape)
    assert saved[f"holdfast_reducer_wire_bytes_total{method}"] == STEPS * 4 * factors


def reduce_gradients() -> None:
    """What reducers and optimisers save, by method; what is left out counts while they live."""
    with holdfast.init() as group:
        address = group.http_address
        exchange = compress.GroupExchange(group)
        torch.manual_seed(group.rank)
        gradient = torch.randn(256, 320)
        reduce_by_powersgd(address, gradient, exchange)
        onebit = compress.OneBit(start_step=0, exchange=exchange)
        saved = grown(address, lambda: [onebit("w", gradient.clone()) for _ in range(STEPS)])
        raw = saved['holdfast_reducer_raw_bytes_total{method="OneBit"}']
        wire = saved['holdfast_reducer_wire_bytes_total{method="OneBit"}']
        assert raw == STEPS * 4 * gradient.numel()
        assert 25 < raw / wire < 32
        parameter = torch.nn.Parameter(torch.zeros(64, 64))
        apollo = compress.Apollo([parameter], 1e-3, rank=4, exchange=exchange)
        parameter.grad = torch.randn(64, 64)
        saved = grown(address, apollo.step)
        assert saved['holdfast_reducer_raw_bytes_total{method="Apollo"}'] == 4 * parameter.numel()
        assert saved['holdfast_reducer_wire_bytes_total{method="Apollo"}'] == 4 * 4 * 64
        gc.collect()
        assert scrape(address)[LEFT_OUT] == 0
        group.barrier()


def own_samples() -> dict[str, float]:
    """What this process counts."""
    (text,) = _process.metrics_texts()
    return samples(text)


def train_under_ddp() -> None:
    """DDP waits where nobody sees it: not counted, unless a hook tells."""
    join("holdfast")
    steps = 0

    def average(state, bucket):  # torch reads no annotations of later evaluation
        """The ranks take turns to be late with the last bucket: the other one waits for it."""
        waits = Path(f"waits.{steps}")
        late = bucket.is_last() and steps % 2 == dist.get_rank()
        if late:
            await_file(waits)
        averaged = holdfast.average_gradients(state, bucket)
        if bucket.is_last() and not late:
            waits.touch()
        return averaged

    def train(hook: bool) -> dict[str, float]:
        layers = [torch.nn.Linear(500, 500) for _ in range(6)]
        model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.5)
        if hook:
            model.register_comm_hook(None, average)

        def step() -> None:
            nonlocal steps
            steps += 1
            model(torch.ones(8, 500)).sum().backward()

        step()
        step()  # DDP has composed its buckets anew
        before = own_samples()
        for _ in range(5):
            step()
        after = own_samples()
        return {k: v - before.get(k, 0) for k, v in after.items()}

    active = "holdfast_op_active_seconds_total"
    told = train(hook=True)
    assert 0 < told["holdfast_op_exposed_seconds_total"] < told[active], told
    mute = train(hook=False)
    for found in (told, mute):
        assert total(found, "holdfast_ops_total", "all_reduce") >= 5 * 2
    # Only what had ended before its Future was asked for.
    assert mute["holdfast_op_exposed_seconds_total"] == 0
    assert_a_future_is_no_known_wait(active)
    dist.destroy_process_group()


def assert_a_future_is_no_known_wait(active: str) -> None:
    """Rank 1 waits for rank 0 by a Future."""
    took = 'holdfast_op_duration_seconds_sum{collective="all_reduce"}'
    before = own_samples()
    if dist.get_rank() == 0:
        time.sleep(0.3)
    work = dist.all_reduce(torch.ones(10), async_op=True)
    assert work is not None
    work.get_future().wait()
    after = own_samples()
    if dist.get_rank() == 1:
        assert after[took] - before[took] > 0.1
        assert after[active] == before[active]
