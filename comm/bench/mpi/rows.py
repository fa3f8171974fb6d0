"""What is told of a contestant in one case of ``holdfast bench --api mpi``, and in what form."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast import __version__
from holdfast.comm.bench import report

OURS = "holdfast"

HEADER = (
    f"{'ranks':>5} {'case':<18} {'bytes':>6} {'contestant':<19} {'time us':>11} {'p50':>11} "
    f"{'GB/s':>8}  faster than (x), or options"
)


@dataclass(slots=True)
class Times:
    """Microseconds: of each turn the least time, and the median."""

    least: list[float] = field(default_factory=list)
    middle: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """One contestant in one case.

    Parameters
    ----------
    name, size : str, int
        The case, as ``measure.c`` prints it; `size` in bytes.
    contestant : str
        ``holdfast`` or a peer's name; behind a stroke what it is where it is not MPI:
        ``holdfast/holdfast.h``, ``mpich/hand``.
    ranks : int
        How many there were.
    times : dict of str to Times
        By the launcher's options; what is told is that of the fastest.
    ratios : dict of str to float
        Rows of Holdfast's MPI: each other's least time by this one's; above 1 this is faster.
    """

    name: str
    size: int
    contestant: str
    ranks: int
    times: dict[str, Times] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)

    def add(self, setting: str, least: float, middle: float) -> None:
        """Add a turn's times."""
        times = self.times.setdefault(setting, Times())
        times.least.append(least)
        times.middle.append(middle)

    @property
    def setting(self) -> str:
        """The launcher's options with which it was fastest."""
        return min(self.times, key=lambda setting: min(self.times[setting].least))

    @property
    def least(self) -> float:
        """The least time, in microseconds."""
        return min(self.times[self.setting].least)

    @property
    def middle(self) -> float:
        """The median of the turns' medians, in microseconds."""
        return statistics.median(self.times[self.setting].middle)

    @property
    def algbw(self) -> float:
        """Bytes by the least time, in GB/s."""
        return self.size / self.least / 1e3

    def as_json(self) -> dict[str, object]:
        """Return what a program reads; the fastest other MPI is `peer`."""
        others = [other for other in self.ratios if "/" not in other]
        best = min(others, key=lambda peer: self.ratios[peer], default=None)
        return {
            "name": self.name,
            "contestant": self.contestant,
            "ranks": self.ranks,
            "bytes": self.size,
            "algbw": round(self.algbw, 4),
            "time_us": round(self.least, 4),
            "p50_us": round(self.middle, 4),
            "peer": best,
            "ratio": round(self.ratios[best], 3) if best else None,
            "ratios": {other: round(ratio, 3) for other, ratio in self.ratios.items()},
            "options": self.setting,
            "version": __version__,
        }

    def line(self) -> str:
        """Return a row of the table."""
        ratios = ", ".join(f"{other} {ratio:.2f}" for other, ratio in self.ratios.items())
        return (
            f"{self.ranks:>5} {self.name:<18} {report.size_text(self.size):>6} "
            f"{self.contestant:<19} {self.least:>11.2f} {self.middle:>11.2f} "
            f"{self.algbw:>8.2f}  {ratios or self.setting}".rstrip()
        )


def compare(rows: Iterable[Row]) -> list[Row]:
    """Return rows case by case, Holdfast's first, and tell it its ratios."""
    cases: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        cases.setdefault((row.name, row.size), []).append(row)
    for of_case in cases.values():
        of_case.sort(key=lambda row: (not row.contestant.startswith(OURS), "/" in row.contestant))
        if of_case[0].contestant == OURS:
            ours, *others = of_case
            ours.ratios = {row.contestant: row.least / ours.least for row in others}
    return [row for of_case in cases.values() for row in of_case]
