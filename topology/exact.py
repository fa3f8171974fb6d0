"""The exact bound of a collective on a map of links, as a linear program: no choice of trees,
however many, is faster. It takes seconds to minutes, so only people and tests ask for it.

Payload flows from every root, by the root's share, to each rank (broadcast), from each rank to the
roots (reduce), or both (all_reduce). By Edmonds' theorem there are trees that carry shares of roots
within edge capacities exactly if each rank alone could be served so.

References
----------
.. [1] Edmonds, "Edge-disjoint branchings", 1973.
.. [2] Huangfu, Hall, "Parallelizing the dual revised simplex method", 2018: the solver, HiGHS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast._core import map_capacities
from holdfast.errors import ConfigError

MOST_RANKS = 24
# Whose roots are free, or one.
COLLECTIVES = ("all_reduce", "broadcast", "reduce")
_BITS_PER_KBIT = 1000


class _Row(NamedTuple):
    terms: Sequence[tuple[int, float]]  # column, factor
    most: float
    equal: bool


class _Program:
    """Rows and columns of a linear program, in the solver's terms."""

    def __init__(self) -> None:
        self.columns = 0
        self._rows: list[_Row] = []

    def column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def row(self, terms: Sequence[tuple[int, float]], most: float, *, equal: bool = False) -> None:
        self._rows.append(_Row(terms, most, equal))

    def largest(self, column: int) -> float:
        import numpy as np
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        def part(equal: bool) -> tuple[Any, list[float]]:
            chosen = [row for row in self._rows if row.equal is equal]
            values = [value for row in chosen for _, value in row.terms]
            rows = [number for number, row in enumerate(chosen) for _ in row.terms]
            columns = [column for row in chosen for column, _ in row.terms]
            matrix = coo_array((values, (rows, columns)), shape=(len(chosen), self.columns))
            return matrix, [row.most for row in chosen]

        aim = np.zeros(self.columns)
        aim[column] = -1
        (a_most, most), (a_equal, equal) = part(False), part(True)
        found = linprog(aim, A_ub=a_most, b_ub=most, A_eq=a_equal, b_eq=equal, method="highs")
        if found.x is None:
            raise ConfigError(f"the exact bound was not found: {found.message}")
        return float(found.x[column])


def _add_flows(
    program: _Program,
    ranks: int,
    edges: dict[tuple[int, int], int],
    roots: list[int],
    rate: int,
    *,
    up: bool,
) -> None:
    """Let every rank be served by the roots, within what the trees have of each edge."""
    for served in range(ranks):
        flow = {edge: program.column() for edge in edges}
        entering = [program.column() for _ in range(ranks)]
        for edge, column in flow.items():
            program.row([(column, 1), (edges[edge], -1)], 0)
        for rank in range(ranks):
            program.row([(entering[rank], 1), (roots[rank], -1)], 0)
            # What comes in goes out, on the way down; the other way round on the way up.
            terms: list[tuple[int, float]] = [(entering[rank], 1)]
            for (source, target), column in flow.items():
                if rank == (source if up else target):
                    terms.append((column, 1))
                elif rank == (target if up else source):
                    terms.append((column, -1))
            if rank == served:
                terms.append((rate, -1))
            program.row(terms, 0, equal=True)


def largest_rate(
    ranks: int,
    kbit_per_s: Sequence[int],
    shared: Sequence[tuple[str, int, Sequence[int], Sequence[int]]],
    collective: str = "all_reduce",
    root: int | None = None,
) -> float:
    """Return the payload that trees can move in a second.

    Parameters
    ----------
    ranks : int
        How many.
    kbit_per_s : sequence of int
        By pair, ``from * ranks + to``; 0: there is no way.
    shared : sequence of (str, int, sequence of int, sequence of int)
        Name, kbit/s, and the ranks from which and to which it carries.
    collective : str
        One of `COLLECTIVES`.
    root : int, optional
        Of broadcast and reduce.

    Returns
    -------
    float
        kbit/s.

    Raises
    ------
    ConfigError
        When the solver finds nothing.
    """
    scale = max(max(kbit_per_s), 1)
    program = _Program()
    rate = program.column()
    roots = [program.column() for _ in range(ranks)]
    program.row([*((r, 1.0) for r in roots), (rate, -1.0)], 0, equal=True)
    for rank in range(ranks):
        if collective != "all_reduce" and rank != root:
            program.row([(roots[rank], 1)], 0)
    pairs = [
        (u, v) for u in range(ranks) for v in range(ranks) if u != v and kbit_per_s[u * ranks + v]
    ]
    ways = []
    for up in (False, True):
        if collective == ("broadcast" if up else "reduce"):
            continue
        edges = {pair: program.column() for pair in pairs}
        ways.append(edges)
        _add_flows(program, ranks, edges, roots, rate, up=up)
    for u, v in pairs:
        program.row([(edges[u, v], 1) for edges in ways], kbit_per_s[u * ranks + v] / scale)
    for _, most, sources, targets in shared:
        inside = [(u, v) for u in sources for v in targets if (u, v) in ways[0]]
        if inside:
            program.row([(e[pair], 1) for e in ways for pair in inside], most / scale)
    return program.largest(rate) * scale


def bound_s(
    map_text: str,
    collective: str = "all_reduce",
    *,
    size: int = 256 << 20,
    root: int = 0,
    without: Sequence[int] = (),
) -> float:
    """Return the seconds that no choice of trees goes below.

    Parameters
    ----------
    map_text, collective, size, root, without
        As for `holdfast.topology.forest.plan`; at most 24 ranks.

    Returns
    -------
    float
        Seconds, without latency.

    Raises
    ------
    ConfigError
        For a map that cannot be used, for more ranks, and where scipy is missing.
    """
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise ConfigError('the exact bound needs scipy: pip install "holdfast[topology]"') from None
    ranks, rates, shared = map_capacities(map_text, list(without))
    if ranks > MOST_RANKS:
        raise ConfigError(f"the exact bound of {ranks} ranks; accepted: at most {MOST_RANKS}")
    return size * 8 / _BITS_PER_KBIT / largest_rate(ranks, rates, shared, collective, root)
