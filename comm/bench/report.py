"""What is shown: rows with bandwidths and ratios, as a table, JSON lines or a plot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.comm.bench.plan import bus_factor
from holdfast.errors import ConfigError


@dataclass(slots=True)
class Entry:
    """Who was measured, and in what.

    Parameters
    ----------
    ranks, collective, size, dtype
        The case; `size` in bytes.
    name : str
        The contestant, as in ``holdfast/shm`` or ``gloo``.
    """

    ranks: int
    collective: str
    size: int
    dtype: str
    name: str

    def identity(self) -> dict[str, object]:
        """Return it as a program reads it."""
        return {
            "name": self.collective,
            "contestant": self.name,
            "ranks": self.ranks,
            "bytes": self.size,
            "dtype": self.dtype,
        }


@dataclass(slots=True)
class Row(Entry):
    """One contestant in one case; times in seconds.

    Parameters
    ----------
    ranks, collective, size, dtype, name
        As in :class:`Entry`.
    mean, p50, p95, p99 : float
        Seconds.
    ratios : dict of str to float
        Holdfast's rows: each peer's time by this one's; above 1 Holdfast is faster.
    floor : float, optional
        Holdfast's rows: seconds that its transport needs at least.
    """

    mean: float
    p50: float
    p95: float
    p99: float
    ratios: dict[str, float] = field(default_factory=dict)
    floor: float | None = None

    @property
    def case(self) -> tuple[str, int, str]:
        """What contestants have in common."""
        return self.collective, self.size, self.dtype

    @property
    def is_ours(self) -> bool:
        """Whether this is a row of Holdfast's."""
        return self.name.startswith("holdfast")

    @property
    def is_floor(self) -> bool:
        """Whether this is what the machine allows."""
        return self.name.startswith("floor/")

    @property
    def algbw(self) -> float:
        """Algorithm bandwidth in GB/s."""
        return 0.0 if self.collective == "barrier" else self.size / self.mean / 1e9

    @property
    def busbw(self) -> float:
        """Bus bandwidth in GB/s."""
        return self.algbw * bus_factor(self.collective, self.ranks)

    def as_json(self, version: str) -> dict[str, object]:
        """Return what a program reads; the fastest peer is `peer`."""
        best = min(self.ratios, key=lambda peer: self.ratios[peer], default=None)
        return {
            **self.identity(),
            "algbw": round(self.algbw, 4),
            "busbw": round(self.busbw, 4),
            "time_us": round(self.mean * 1e6, 2),
            "p50_us": round(self.p50 * 1e6, 2),
            "p95_us": round(self.p95 * 1e6, 2),
            "p99_us": round(self.p99 * 1e6, 2),
            "peer": best,
            "ratio": round(self.ratios[best], 3) if best else None,
            "ratios": {peer: round(ratio, 3) for peer, ratio in self.ratios.items()},
            "floor_us": None if self.floor is None else round(self.floor * 1e6, 2),
            "version": version,
        }


def compare(rows: Sequence[Row]) -> None:
    """Give Holdfast's rows of one case their ratios to the peers and floors of the same case."""
    floors = {row.name.split("/")[1]: row.mean for row in rows if row.is_floor}
    peers = [row for row in rows if not row.is_ours and not row.is_floor]
    for row in rows:
        if row.is_ours:
            row.ratios = {peer.name: peer.mean / row.mean for peer in peers}
            row.floor = floors.get(row.name.split("/")[1])


def size_text(size: int) -> str:
    """Return bytes as people write them."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


HEADER = (
    f"{'ranks':>5} {'collective':<14} {'size':>6} {'dtype':<8} {'contestant':<18} "
    f"{'time us':>11} {'p50':>10} {'p99':>10} {'algbw':>8} {'busbw':>8}  faster than (x)"
)


def progress(done: int, total: int) -> None:
    """Draw a bar on a terminal; elsewhere the rows themselves tell."""
    if sys.stderr.isatty():
        filled = 30 * done // total
        bar = "#" * filled + "." * (30 - filled)
        print(f"\r[{bar}] {done}/{total} rows", end="" if done < total else "\n", file=sys.stderr)


def line(row: Row) -> str:
    """Return a row of the table; bandwidths in GB/s."""
    ratios = ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in row.ratios.items())
    if row.floor is not None:
        ratios += f"{'; ' if ratios else ''}{100 * row.floor / row.mean:.0f} % of possible"
    return (
        f"{row.ranks:>5} {row.collective:<14} {size_text(row.size):>6} {row.dtype:<8} "
        f"{row.name:<18} {row.mean * 1e6:>11.1f} {row.p50 * 1e6:>10.1f} {row.p99 * 1e6:>10.1f} "
        f"{row.algbw:>8.2f} {row.busbw:>8.2f}  {ratios}"
    )


def plot(rows: Iterable[Row], path: Path) -> None:
    """Draw bus bandwidth over size, one panel a collective and number of ranks.

    Raises
    ------
    ConfigError
        When matplotlib is not installed, or cannot write that kind of file.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError(
            "--plot needs matplotlib; install it with `pip install holdfast[plot]`"
        ) from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels: dict[tuple[str, int], dict[str, list[tuple[int, float]]]] = {}
    for row in rows:
        lines = panels.setdefault((row.collective, row.ranks), {})
        value = row.busbw if row.collective != "barrier" else row.mean * 1e6
        lines.setdefault(row.name, []).append((row.size, value))
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(7, 3.2 * len(panels)), squeeze=False, layout="constrained"
    )
    for axis, ((collective, ranks), lines) in zip(axes[:, 0], panels.items(), strict=True):
        for name, points in lines.items():
            axis.plot(*zip(*points, strict=True), marker="o", label=name)
        axis.set_title(f"{collective}, {ranks} ranks")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("bytes")
        axis.set_ylabel("time, us" if collective == "barrier" else "bus bandwidth, GB/s")
        axis.legend()
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        raise ConfigError(f"--plot {path}: {error}") from None
