"""Where the ranks of a benchmark meet, outside of all contestants: torch and gloo."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def meeting(folder: str, rank: int, ranks: int) -> Iterator[None]:
    """Bring the ranks together, with one thread of torch's each; part when all are done.

    Parameters
    ----------
    folder : str
        That all of them reach.
    rank, ranks : int
        Own number, and how many there are.
    """
    import torch
    import torch.distributed as dist

    # torch is renaming functions; both names do.
    warnings.simplefilter("ignore", FutureWarning)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks
    )
    yield
    dist.barrier()
    dist.destroy_process_group()


def slowest(values: Sequence[float]) -> list[float]:
    """Return the largest of all ranks' numbers, elementwise."""
    import torch
    import torch.distributed as dist

    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return list(t.tolist())
