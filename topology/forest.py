"""Plans of weighted trees on a map of links: what moves where, how long, and why.

A map is JSON, ``format: 1`` (docs/guide/topology.md). A plan is a forest of up to 64 trees, each
with a root, a way up and a way down for every rank, and a share of the payload.

References
----------
.. [1] Edmonds, "Edge-disjoint branchings", 1973: what trees from a root can carry.
.. [2] Zhao et al., "ForestColl: throughput-optimal collective communications on heterogeneous
   network fabrics", 2024: trees of a collective, and their bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast._core import forest_steps, plan_forest

COLLECTIVES = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather")
# Shares of trees are in parts of this.
WHOLE_SHARE = 65536


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree of a plan.

    Parameters
    ----------
    root : int
        The rank that has the sum first, and sends the result.
    up : list of int
        By rank, whom it sends its sum to; -1 for the root. Empty: the collective does not sum up.
    down : list of int
        By rank, whom it receives the result from; -1 for the root. Empty: it sends nothing down.
    share : int
        How much of the payload it moves, in parts of 65536.
    """

    root: int
    up: list[int]
    down: list[int]
    share: int


@dataclass(frozen=True, slots=True)
class ForestPlan:
    """A collective's plan on a map.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    ranks, root, bytes : int
        How many there are; the root of broadcast and reduce; the payload.
    trees : list of Tree
        By falling share.
    traffic : list of (int, int, float)
        What goes from one rank to another, as a share of the payload.
    predicted_s : float
        Seconds: the payload over the capacity that decides, and the deepest tree's latency.
    latency_s : float
        Seconds: the latter alone.
    bound_s : float
        Seconds that no choice of trees goes below on these capacities.
    at : str
        The capacity that decides.
    why : str
        A sentence for people.
    digest : str
        Of map and trees: the same on all ranks that have the same map.
    choice : str or None
        The algorithm that a group takes for this payload, each rank on a host of its own: "forest",
        or one that is predicted to be faster. None above 64 ranks, where none is priced.
    choice_s : float or None
        Seconds that it is predicted to take, with what messages cost the ranks.
    """

    collective: str
    ranks: int
    root: int
    bytes: int
    trees: list[Tree]
    traffic: list[tuple[int, int, float]]
    predicted_s: float
    latency_s: float
    bound_s: float
    at: str
    why: str
    digest: str
    choice: str | None
    choice_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Return what ``holdfast plan --topology --json`` writes."""
        return {
            "collective": self.collective,
            "ranks": self.ranks,
            "root": self.root,
            "bytes": self.bytes,
            "predicted_s": self.predicted_s,
            "latency_s": self.latency_s,
            "bound_s": self.bound_s,
            "at": self.at,
            "why": self.why,
            "digest": self.digest,
            "choice": self.choice,
            "choice_s": self.choice_s,
            "trees": [
                {"root": t.root, "share": t.share / WHOLE_SHARE, "up": t.up, "down": t.down}
                for t in self.trees
            ],
            "traffic": [list(row) for row in self.traffic],
        }


def plan(
    map_text: str,
    collective: str = "all_reduce",
    *,
    size: int = 256 << 20,
    root: int = 0,
    without: Sequence[int] = (),
) -> ForestPlan:
    """Plan a collective on a map.

    Parameters
    ----------
    map_text : str
        The map, as JSON.
    collective : str
        One of `COLLECTIVES`.
    size : int
        Bytes of payload.
    root : int
        Of broadcast and reduce, a number among the ranks that are left.
    without : sequence of int
        Ranks that are gone; the others are numbered anew, in their order.

    Returns
    -------
    ForestPlan

    Raises
    ------
    ConfigError
        For a map, a collective, a root or ranks that cannot be used; it names which.
    """
    made = plan_forest(map_text, collective, root, size, list(without))
    choice, choice_s = made["choice"] or (None, None)
    return ForestPlan(
        collective,
        made["ranks"],
        root,
        size,
        [Tree(*tree) for tree in made["trees"]],
        made["traffic"],
        made["predicted_s"],
        made["latency_s"],
        made["bound_s"],
        made["decides"],
        made["why"],
        f"{made['digest']:016x}",
        choice,
        choice_s,
    )


def steps(
    map_text: str, collective: str = "all_reduce", *, root: int = 0, without: Sequence[int] = ()
) -> Iterator[str]:
    """Yield the plan's schedules as JSON lines, which the verifier has proven.

    The first line has `collective`, `ranks`, `root`, `chunks` and `shares` (of the payload, by
    chunk, in parts of their sum; a tree has several chunks; of reduce_scatter and all_gather, of
    each rank's block in turn, in parts of the sum of that block's). Each other one is a step:
    `rank`, `do` (send, recv, reduce, copy), `peer` and `ordinal` of a message, the slots `to`,
    `from` and `with`, and `after`, the numbers of the rank's steps that must have ended. A slot is
    ``[space, first chunk, chunks]``.

    Parameters
    ----------
    map_text, collective, root, without
        As for `plan`.

    Yields
    ------
    str
        A line of JSON.

    Raises
    ------
    ConfigError
        As `plan` does.
    """
    made = plan(map_text, collective, size=0, root=root, without=without)
    shares, schedules = forest_steps(map_text, collective, root, list(without))
    yield json.dumps(
        {
            "collective": collective,
            "ranks": made.ranks,
            "root": root,
            "chunks": len(shares),
            "shares": shares,
        }
    )
    names = ("do", "peer", "ordinal", "to", "from", "with")
    for rank, schedule in enumerate(schedules):
        for *fields, after in schedule:
            step = {n: v for n, v in zip(names, fields, strict=True) if v is not None}
            yield json.dumps({"rank": rank, **step, "after": after})
