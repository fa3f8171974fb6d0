"""The page of docs/evidence: the table of what was run, and notes on each client."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from case import PASSES, RTOL, SAME, Case, Run, apart
from catalogue import CLIENTS
from environments import ROOT

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Row:
    case: Case
    gloo: Run
    holdfast: Run
    bad: str


def machine() -> str:
    """Say in plain words what this ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    cores = len(os.sched_getaffinity(0))
    gpu = "with a GPU" if Path("/dev/nvidiactl").exists() else "CPU only"
    return f"{cores} cores, {memory:.0f} GiB, {platform.machine()}, {system}, {gpu}"


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+changes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout.strip() or "unknown commit"


def compared(row: Row) -> str:
    """Say how the losses compare; nothing where there are none on both sides."""
    if row.case.expected != SAME:
        return row.holdfast.detail if row.case.kill else ""
    difference = apart(row.holdfast, row.gloo)
    if difference is None:
        return "no"
    return "equal" if difference == 0 else f"{difference:.1e}"


def became(run: Run) -> str:
    return f"{run.became} ({run.seconds:.0f} s)"


def table(rows: list[Row]) -> Iterator[str]:
    yield "| client | case | ranks | started by | gloo | holdfast | losses |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        case = row.case
        by = "its own launcher" if case.launcher == "own" else f"`{case.launcher}`"
        yield (
            f"| {case.client} | {case.what} | {case.ranks} | {by} | {became(row.gloo)} "
            f"| {became(row.holdfast)}{' **not as expected**' if row.bad else ''} "
            f"| {compared(row)} |"
        )


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def markdown(rows: list[Row], versions: dict[str, str], command: str) -> str:
    """Make the page."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    today = datetime.datetime.now(datetime.timezone.utc).date()
    lines = ["# Real clients", ""]
    lines += wrapped(
        f"Made by `{command}` on {today}, commit {commit()}, on {machine()}, shared with other "
        f"work. Python {platform.python_version()}, {told}."
    )
    lines.append("")
    lines += wrapped(
        "Frameworks that know nothing of Holdfast, unchanged but for the backend's name, beside "
        "gloo: the same program, seed and data (`tests/clients/programs`). How each is told the "
        "name, and what else had to be said, is below the table. Models and data are small, and "
        "made by the programs: this says what works, not how fast. Most of the seconds are imports."
    )
    lines += ["", *table(rows), ""]
    lines += wrapped(
        "**losses**: the largest relative difference of any rank's loss in any of the twelve "
        f"steps; allowed are {RTOL:g}, as the backends add in another order. *Killed* is SIGKILL, "
        "by rank 1 to itself at the beginning of a step; the last column says which step the "
        "survivors had finished, or whether those who came to the end have the same bits. "
        f"*{PASSES.capitalize()}*: every rank came to the end of the program."
    )
    for client in CLIENTS:
        if client.name in {row.case.client for row in rows}:
            lines += ["", f"## {client.name}", ""]
            for note in client.notes:
                lines += [*wrapped(note), ""]
            lines.pop()
    return "\n".join(lines) + "\n"
