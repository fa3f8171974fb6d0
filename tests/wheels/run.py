"""Installs each wheel of dist/wheels beside each torch, in an empty environment, and uses it.

usage: run.py [--pythons python3.11 ...] [--torches 2.13.0 ...] [--write]

Rows of earlier runs on the same commit stay in the table.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import checks
import page
from environment import Environment, Failed, create
from page import Row

ROOT = Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "wheels-test"
# Of pip install and the first all_reduce together, where other programs leave the time for it.
LIMIT_S = 10.0
BUSY_PER_CORE = 1.5

Version = tuple[int, int]


def version_of(python: str) -> Version | None:
    """(3, 11); None for one that does not run."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def has_pip(python: str) -> bool:
    done = subprocess.run(
        [python, "-m", "pip", "--version"], capture_output=True, check=False, timeout=60
    )
    return done.returncode == 0


def numbers(text: str) -> Version:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def torches(python: Version) -> list[str]:
    """The versions of torch that the wheel for a Python has modules for."""
    rows = [line.split() for line in (ROOT / ".ci/torches.txt").read_text().splitlines()]
    return [
        version
        for version, oldest, newest in (row for row in rows if row[0] != "#")
        if numbers(oldest) <= python <= numbers(newest)
    ]


def wheel_for(python: Version) -> Path | None:
    tag = f"cp{python[0]}{python[1]}"
    found = sorted(
        (ROOT / "dist/wheels").glob(f"holdfast-*-{tag}-{tag}-*_{platform.machine()}.whl")
    )
    return found[0] if found else None


def cell(check: Callable[[], str], problems: list[str]) -> str:
    """What the check returned; what goes wrong is shown in the table and fails the run."""
    try:
        return check()
    except (Failed, OSError, subprocess.SubprocessError) as error:
        problems.append(str(error))
        return "FAILED: " + str(error).splitlines()[0][:120]


def installed_torch(env: Environment) -> str:
    code = "import torch; print(torch.__version__)"
    return env.run(env.python, "-c", code).splitlines()[-1]


def beside(
    python: str, version: Version, wheel: Path, torch: str, other: str | None, problems: list[str]
) -> Row:
    """All checks of a wheel beside one torch."""
    row = Row(f"{version[0]}.{version[1]}", torch)
    env = create(python, WORK / f"{version[0]}.{version[1]}-{torch}")
    try:
        env.pip(f"torch=={torch}")
        torch = installed_torch(env)
    except (Failed, subprocess.TimeoutExpired) as error:
        return replace(row, symbols=f"not installed: {str(error).splitlines()[-1][:100]}")
    minors = [checks.minor_of(each) for each in torches(version)]
    try:
        install = env.pip(wheel)
        first = checks.first_all_reduce(env)
    except Failed as error:
        problems.append(str(error))
        return replace(row, torch=torch, install="FAILED")
    load = os.getloadavg()[0]
    taken = install.wall + first.wall
    if taken >= LIMIT_S and load < BUSY_PER_CORE * (os.cpu_count() or 1):
        problems.append(f"{row.python}, torch {torch}: {taken:.1f} s to a first result")
    return replace(
        row,
        torch=torch,
        install=str(install),
        first=str(first),
        load=f"{load:.0f}",
        symbols=cell(lambda: checks.fits(env, torch), problems),
        info=cell(lambda: checks.info(env, torch, minors), problems),
        ddp_kill=cell(lambda: checks.ddp_with_kill(env), problems),
        c=cell(lambda: checks.c_example(env), problems),
        refused_torch=cell(lambda: checks.refused_torch(env, torch, minors), problems),
        refused_python=cell(lambda: checks.refused_python(env, other, wheel), problems)
        if other
        else "no other Python",
    )


def emulated(wheel: Path) -> str:
    """What became of a wheel for another processor."""
    if platform.machine() == "aarch64" or "_aarch64" not in wheel.name:
        return "above"
    done = subprocess.run(
        [ROOT / "tests/wheels/under_qemu.sh", sys.executable, wheel],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    told = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return told[-1].removeprefix("under_qemu: ")[:100]


def verdicts() -> list[tuple[str, float, str, str]]:
    """Name, megabytes, auditwheel's tag and use of every wheel that was built."""
    auditwheel = ROOT / "build/wheels/tools/bin/auditwheel"
    rows = []
    for wheel in sorted((ROOT / "dist/wheels").glob("*.whl")):
        done = subprocess.run(
            [auditwheel, "show", wheel], capture_output=True, text=True, check=False, timeout=120
        )
        # It does not know that torch's libraries come with torch, but what symbols ask for.
        told = re.search(r'constrains the platform tag to "([^"]+)"', " ".join(done.stdout.split()))
        tag = told[1] if told else "none"
        rows.append((wheel.name, wheel.stat().st_size / 1e6, tag, emulated(wheel)))
    return rows


def publish(rows: dict[str, Row]) -> None:
    for wheel in (ROOT / "dist/wheels").glob(f"holdfast-*_{platform.machine()}.whl"):
        version = (3, int(re.findall(r"-cp3(\d+)-", wheel.name)[0]))
        for torch in torches(version):
            missing = Row(f"3.{version[1]}", torch, symbols="not tried")
            rows.setdefault(f"{version} {torch}", missing)
    path = ROOT / "docs/evidence/wheels.md"
    path.write_text(page.text([rows[key] for key in sorted(rows)], verdicts(), LIMIT_S))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", nargs="+", default=[f"python3.{n}" for n in range(10, 15)])
    parser.add_argument("--torches", nargs="+", help="default: all of .ci/torches.txt")
    parser.add_argument("--write", action="store_true", help="write docs/evidence/wheels.md")
    chosen = parser.parse_args()
    pythons = {python: v for python in chosen.pythons if (v := version_of(python))}
    rows = page.kept()
    tried: list[Row] = []
    problems: list[str] = []
    for python, version in pythons.items():
        wheel = wheel_for(version)
        if wheel is None:
            print(f"{python}: no wheel for it in dist/wheels")
            continue
        other = next((p for p, v in pythons.items() if v != version and has_pip(p)), None)
        for torch in torches(version):
            if chosen.torches and torch not in chosen.torches:
                continue
            begun = time.monotonic()
            row = beside(python, version, wheel, torch, other, problems)
            print(row, f"{time.monotonic() - begun:.0f} s", flush=True)
            tried.append(row)
            rows[f"{version} {torch}"] = row
            page.keep(rows)  # each takes minutes
            shutil.rmtree(WORK, ignore_errors=True)  # several gigabytes each
    print(page.table(tried))
    if chosen.write:
        publish(rows)
    print(*problems, sep="\n")
    used = [row for row in tried if row.install]
    print(f"wheels: {len(used)} of {len(tried)} rows tried, {len(problems)} problems")
    return 0 if used and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
