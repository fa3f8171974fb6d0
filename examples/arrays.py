"""NumPy arrays and no framework: collectives that block, that run beside a computation, awaited.

    holdfast run -n 4 examples/arrays.py

Every rank learns the sum, everybody's part and the mean; each checks what it got. torch tensors go
in the same way.
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np

import holdfast


async def mean_beside_work(group: holdfast.Group, elements: int) -> tuple[float, float]:
    """Start a large mean, compute meanwhile, and await it."""
    gradient = np.full(elements, group.rank, dtype=np.float32)
    work = group.all_reduce(gradient, op="avg", async_op=True)
    assert work is not None
    own = float(np.square(np.arange(1000.0)).sum())  # whatever there is to do
    await work
    return float(gradient[0]), own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1_000_000)
    arguments = parser.parse_args()
    # Rank, size and where to meet come from the launcher.
    with holdfast.init() as group:
        total = np.array([group.rank + 1.0])
        group.all_reduce(total)
        everybody = np.zeros(group.size, dtype=np.int64)
        group.all_gather(everybody, np.array([group.rank]))
        mean, _ = asyncio.run(mean_beside_work(group, arguments.elements))
        group.barrier()

        assert total[0] == group.size * (group.size + 1) / 2
        assert everybody.tolist() == list(range(group.size))
        assert mean == (group.size - 1) / 2
        if group.rank == 0:
            print(
                f"{group.size} ranks over {group.transports[-1]}: the sum is {total[0]:.0f}, "
                f"the ranks are {everybody.tolist()}, their mean is {mean}"
            )


if __name__ == "__main__":
    main()
