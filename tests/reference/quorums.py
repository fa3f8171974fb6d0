"""guarantees.md: who may decide the next view, asked of the function that decides it."""

from __future__ import annotations

from itertools import combinations

from holdfast import _core
from reference.markdown import table

# Who decides: whether a record names the view, and who breaks a tie.
DECIDERS = {
    "the lowest rank": (False, "first"),
    "a coordinator that knows the view": (False, "enough"),
    "a coordinator that was started later": (False, "few"),
    "a coordinator whose record names the view": (True, "few"),
}
# Views of so many members are tried, with every set of members that may be left.
VIEWS = range(2, 8)

# Rules in words, and what they say of the members that are left.
RULES = {
    "whoever is left": lambda view, left: True,
    "more than half": lambda view, left: 2 * len(left) > view,
    "more than half, or half with the view's first member": lambda view, left: (
        2 * len(left) > view or (2 * len(left) == view and 0 in left)
    ),
    "half": lambda view, left: 2 * len(left) >= view,
}


def rule(proven: bool, recorded: bool, half: str) -> str:
    """The rule that says the same as the program, of all members that may be left of all views."""
    cases = [
        (view, left)
        for view in VIEWS
        for count in range(1, view)
        for left in combinations(range(view), count)
    ]
    for words, holds in RULES.items():
        if all(
            holds(view, left) == _core.may_decide(view, left, proven, recorded, half)
            for view, left in cases
        ):
            return words
    raise ValueError(f"no rule in words for {proven=}, {recorded=}, {half=}")


def part() -> str:
    rows = [(who, rule(True, *how), rule(False, *how)) for who, how in DECIDERS.items()]
    return table(("who decides", "the others' deaths are proven", "not proven"), rows)
