"""Who sends how much to whom in all_to_allv: tokens on their way to the experts of a mixture.

Few experts are popular and many blocks are empty: routing by a learned gate is far from even
[1]_.

References
----------
.. [1] Hwang et al., "Tutel: Adaptive Mixture-of-Experts at Scale", MLSys 2023.
"""

from __future__ import annotations

from itertools import pairwise


def blocks(rank: int, ranks: int, count: int) -> list[int]:
    """Return what a rank sends to each rank.

    Rank d gets shares in proportion to 1 / (d + 1), and nothing from a third of the ranks.

    Parameters
    ----------
    rank, ranks : int
        Whose blocks, of how many ranks.
    count : int
        Elements that the rank sends in all.
    """
    shares = [0.0 if (rank + d) % 3 == 2 else 1 / (d + 1) for d in range(ranks)]
    ends = [0, *(int(count * sum(shares[: d + 1]) / sum(shares)) for d in range(ranks))]
    return [end - begin for begin, end in pairwise(ends)]


def splits(rank: int, ranks: int, count: int) -> tuple[list[int], list[int]]:
    """Return the elements that a rank gives to each rank, and those that it takes from each."""
    return blocks(rank, ranks, count), [blocks(r, ranks, count)[rank] for r in range(ranks)]


def first_source(taken: list[int]) -> int | None:
    """Return the first rank that sends something; None: nobody does."""
    return next((rank for rank, count in enumerate(taken) if count), None)
