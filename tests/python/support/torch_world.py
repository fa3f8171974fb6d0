"""What ranks that use torch share: the default group, and values and errors that must be right."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor


def join(backend: str = "holdfast") -> tuple[int, int]:
    """Initialise the default group; no import of holdfast anywhere."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    method = f"file://{os.environ['MEETING_FILE']}"
    dist.init_process_group(backend, init_method=method, rank=rank, world_size=size)
    return rank, size


def check(got: Tensor, want: Tensor, what: object) -> None:
    assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
    assert torch.equal(got, want), (what, got, want)


def expect(kind: type[BaseException], text: str, call: object) -> None:
    try:
        call()  # type: ignore[operator]
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")
