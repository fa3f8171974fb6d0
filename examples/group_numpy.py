"""Holdfast without torch: NumPy arrays, sync, async and awaitable.

Run it: holdfast run -n 4 examples/group_numpy.py
"""

import asyncio

import numpy as np

import holdfast


async def overlap(group: holdfast.Group) -> float:
    """Start a large sum, compute meanwhile, and await it."""
    gradient = np.full(1_000_000, float(group.rank), dtype=np.float32)
    work = group.all_reduce(gradient, op="avg", async_op=True)
    local = float(np.square(np.arange(100_000, dtype=np.float64)).sum())
    await work
    return float(gradient[0]) + 0.0 * local


def main() -> None:
    with holdfast.init() as group:
        total = np.array([group.rank + 1.0])
        group.all_reduce(total)
        everybody = np.zeros(group.size)
        group.all_gather(everybody, np.array([float(group.rank)]))
        average = asyncio.run(overlap(group))
        group.barrier()
        if group.rank == 0:
            print(f"sum of 1..{group.size}: {total[0]:.0f}")
            print(f"ranks: {everybody.astype(int).tolist()}, over {group.transports[-1]}")
            print(f"average of ranks: {average}")


if __name__ == "__main__":
    main()
