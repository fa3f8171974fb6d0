"""Figures of the rows, read from the lines of JSON that their programs print.

A line that is not there is an error (IndexError, KeyError), never a figure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from row import Reading

Lines = list[dict[str, Any]]
# What float64 leaves of the order of additions, with room; a wrong gradient is 1e-3 and more.
SAME_LEARNING = 1e-9


def _named(lines: Lines, name: str) -> Lines:
    found = [line for line in lines if line.get("name") == name]
    if not found:
        raise KeyError(f"no line of {name!r}")
    return found


def rates(beginnings: tuple[str, ...], bound: float) -> Callable[[Lines], Reading]:
    """Read device_rates: the least part of the copy's rate, of names that begin so."""

    def read(lines: Lines) -> Reading:
        yardstick = _named(lines, "copy")[0]
        those = [line for line in lines if line["name"].startswith(beginnings)]
        if not those:
            raise KeyError(f"no line of {beginnings}")
        parts = {line["name"]: line["of_copy"] for line in those}
        below = sorted((part, name) for name, part in parts.items() if part < bound)
        figure = (
            f"{min(parts.values()):.2f} to {max(parts.values()):.2f}, median "
            f"{statistics.median(parts.values()):.2f} of {len(parts)}, "
            f"at a copy of {yardstick['gb_s']:.0f} GB/s"
        )
        if below:
            figure += f"; below {bound:g}: " + ", ".join(
                f"{name} {part:.2f}" for part, name in below
            )
        return Reading(figure, not below)

    return read


def native(lines: Lines) -> Reading:
    """Read native_tests.py."""
    (row,) = _named(lines, "native tests")
    wrong = [f"{name}: {text}" for kind in ("failed", "cut") for name, text in row[kind].items()]
    passed = len(row["passed"]) + len(row["emulator"])
    return Reading("; ".join([f"{passed} passed", *wrong]), not wrong and passed > 0)


def tests(lines: Lines) -> Reading:
    """Read what the runner makes of pytest's report."""
    (row,) = _named(lines, "pytest")
    parts = [f"{row[kind]} {kind}" for kind in ("passed", "failed", "skipped") if row[kind]]
    parts += row["failures"][:3] + sorted(set(row["reasons"]))[:2]
    return Reading("; ".join(parts), row["failed"] == 0 and row["passed"] > 0)


def ddp(lines: Lines) -> Reading:
    """Read ddp_equals_cpu.py."""
    (row,) = _named(lines, "ddp equals cpu")
    alike = "the same bits on all ranks" if row["alike"] else "other bits on other ranks"
    figure = (
        f"parameters within {row['deviation']:.1e} after {row['steps']} steps, {alike}; "
        f"{row['direct_ops']} of {row['ops']} ops from device to device"
    )
    return Reading(figure, row["alike"] and row["deviation"] <= SAME_LEARNING)


def ipc_rate(bound: float) -> Callable[[Lines], Reading]:
    """Read device_paths.py: what the direct path reaches of the copy bound."""

    def read(lines: Lines) -> Reading:
        direct = [line for line in lines if line["path"] == "direct"]
        parts = [line["of_copy_bound"] for line in direct]
        figure = ", ".join(
            f"{line['ranks']} ranks {line['of_copy_bound']:.2f} ({line['algbw']:.0f} GB/s)"
            for line in direct
        )
        mapped = all(line["peer_mappings"] > 0 for line in direct)
        if not mapped:
            figure += "; no memory was mapped: this is the path through the host"
        return Reading(figure, mapped and min(parts) >= bound)

    return read


def ipc_from(lines: Lines) -> Reading:
    """Read device_paths.py: from which size on the direct path is the faster one."""
    direct = [line for line in lines if line["path"] == "direct"]
    found = []
    for ranks in sorted({line["ranks"] for line in direct}):
        ratios = {line["bytes"]: line["ratio"] for line in direct if line["ranks"] == ranks}
        beaten = [size for size, ratio in ratios.items() if ratio <= 1]
        wins = [size for size in ratios if not beaten or size > max(beaten)]
        told = ", ".join(f"{size}: {ratio:.2f}" for size, ratio in sorted(ratios.items()))
        found.append(f"{ranks} ranks from {min(wins) if wins else 'none of these'} bytes ({told})")
    mapped = all(line["peer_mappings"] > 0 for line in direct)
    if not mapped:
        found.append("no memory was mapped: this is the path through the host")
    return Reading("; ".join(found), bool(found) and mapped)


def overlap(bound: float) -> Callable[[Lines], Reading]:
    """Read overlap.py: the path that is chosen by itself decides."""

    def read(lines: Lines) -> Reading:
        rows = {line["path"]: line for line in _named(lines, "overlap")}
        figure = "; ".join(
            f"{'chosen path' if path == 'auto' else 'through the host'} {row['hidden']:.0%} "
            f"(compute {row['compute_ms']:.2f}, comm {row['comm_ms']:.2f}, both "
            f"{row['both_ms']:.2f} ms)"
            for path, row in rows.items()
        )
        return Reading(figure, rows["auto"]["hidden"] >= bound)

    return read


def gather(bound: float) -> Callable[[Lines], Reading]:
    """Read host_tensor_gather.py; the row is about torch's threads, NumPy has one."""

    def read(lines: Lines) -> Reading:
        (row,) = _named(lines, "host tensor gather")
        figure = (
            f"{row['ratio']:.2f} ({row['gather_ms']:.2f} ms, {row['gather_gb_s']:.1f} GB/s; "
            f"{row['baseline']} with {row['threads']} threads and a copy {row['cpu_ms']:.2f} ms)"
        )
        return Reading(figure, row["ratio"] >= bound)

    return read


def kills(lines: Lines) -> Reading:
    """Read kill_with_kernels.py, of both paths."""
    rows = _named(lines, "kill with kernels")
    figures, holds = [], True
    for row in rows:
        way = "chosen path" if row["ipc"] == "auto" else "through the host"
        figures.append(
            f"{way}: {row['kills']} of {row['expected_kills']} kills, {len(row['lost'])} of "
            f"{row['survivors']} survivors lost, {row['direct_ops']} ops from device to device"
        )
        figures += row["lost"][:2]
        holds &= row["kills"] == row["expected_kills"] and not row["lost"]
        holds &= row["ipc"] != "auto" or row["direct_ops"] > 0
    return Reading("; ".join(figures), holds)


def checks(lines: Lines) -> Reading:
    """Read mixed_and_errors.py; a check that was not run is named."""
    (row,) = _named(lines, "mixed and errors")
    done = [name for name, text in row["checks"].items() if text == "ok"]
    others = [f"{name}: {text}" for name, text in row["checks"].items() if text != "ok"]
    figure = "; ".join([f"ok: {', '.join(done)}", *others])
    failed = [text for text in others if "not run" not in text]
    return Reading(figure, not failed and bool(done))
