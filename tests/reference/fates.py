"""guarantees.md: what a loss makes of an op, asked of the functions that decide it for members."""

from __future__ import annotations

from holdfast import _core
from reference import quorums
from reference.markdown import paragraph, put, table

SITUATIONS = {
    "nothing": "no survivor has any of its result",
    "halves": "each has another half",
    "all": "each has all of it",
    "away": "p is away when the op begins",
}
# Rank 1 is lost; whether it is the root.
ROOTS = {"p is not the root": 0, "p is the root": 1}
PLAIN = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
# In which a rank's data is part of what others get.
SUMS = ("all_reduce", "reduce_scatter", "reduce")

NOTE = """
Each cell is what `native/group/judgement.h` decides for the collective, asked for three ranks of
which p is lost. The first three columns are an op that was under way, by what the survivors have of
their results when the view changes; where all have the same result, two halves are all of it.
"""


def words(collective: str, root: int, held: str) -> str:
    fate = _core.fate_of(collective, root, held)
    if fate == "without" and collective not in SUMS:
        return "complete"
    return {
        "complete": "complete, with p" if collective in SUMS else "complete",
        "without": "complete, without p",
        "hole": "a **hole**",
        "lost": "`PeerLost`",
    }[fate]


def part() -> str:
    rows = [(f"`{c}`", *(words(c, 0, held) for held in SITUATIONS)) for c in PLAIN]
    for collective in ROOTED:
        for who, root in ROOTS.items():
            cells = (words(collective, root, held) for held in SITUATIONS)
            rows.append((f"`{collective}`, {who}", *cells))
    return table(("collective", *SITUATIONS.values()), rows) + "\n" + paragraph(NOTE)


def page(old: str) -> str:
    return put(put(old, "fates", part()), "quorums", quorums.part())
