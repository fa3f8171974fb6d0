"""``holdfast simulate``: the protocol in virtual time, under faults."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast import _core

EXAMPLES = """examples:
  holdfast simulate --seed 42                   what happens in one world, line by line
  holdfast simulate --seed 1 --count 100000     many worlds, and which of them break a guarantee
  holdfast simulate --scenario lost.txt         a world written by hand, or by --print
"""
_CHUNK = 250


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the world's number (1)")
    parser.add_argument(
        "--count", type=int, default=1, metavar="N", help="worlds, from --seed on (1)"
    )
    parser.add_argument("--scenario", type=Path, metavar="FILE", help="instead of a seed")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="threads for --count"
    )
    parser.add_argument(
        "--coordinator",
        action="store_true",
        help="decisions are made by a process of its own, which may die, too",
    )
    parser.add_argument("--print", action="store_true", help="print the scenario, do not run it")
    parser.add_argument(
        "--shrink", action="store_true", help="of a violation, keep only what it needs"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : argparse.Namespace
        What was given.

    Returns
    -------
    int
        0; 1 when a guarantee was broken.
    """
    if arguments.count > 1:
        return _many(arguments)
    if arguments.scenario is not None:
        text = arguments.scenario.read_text(encoding="utf-8")
    else:
        text = _core.make_scenario(arguments.seed, arguments.coordinator)
    if arguments.print:
        print(text, end="")
        return 0
    verdict = _core.simulate(text, with_log=True)
    if verdict["violation"] and arguments.shrink:
        text = _core.shrink_scenario(text)
        verdict = _core.simulate(text, with_log=True)
    if arguments.json:
        print(json.dumps({"scenario": text, **verdict}))
    else:
        print(text, end="")
        print(*verdict["log"], sep="\n")
        print(
            f"{verdict['seconds'] * 1e3:.3f} ms, {verdict['ops']} ops, {verdict['views']} views: "
            f"{verdict['violation'] or 'all guarantees kept'}"
        )
    return 1 if verdict["violation"] else 0


def _many(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    ends = arguments.seed + arguments.count
    starts = range(arguments.seed, ends, _CHUNK)
    done = ops = 0
    violations: list[tuple[int, str]] = []
    told = begun
    with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        sizes = [min(_CHUNK, ends - start) for start in starts]
        outside = [arguments.coordinator] * len(sizes)
        results = pool.map(_core.simulate_many, starts, sizes, outside)
        for size, (some, broken) in zip(sizes, results, strict=True):
            done, ops = done + size, ops + some
            violations += broken
            for seed, violation in broken:
                print(f"seed {seed}: {violation}", file=sys.stderr, flush=True)
            if time.monotonic() - told > (1 if sys.stderr.isatty() else 30):
                told = time.monotonic()
                end = "\r" if sys.stderr.isatty() else "\n"
                print(
                    f"{done:,} of {arguments.count:,} worlds, {len(violations)} violations",
                    end=end,
                    file=sys.stderr,
                    flush=True,
                )
    seconds = time.monotonic() - begun
    if arguments.json:
        print(
            json.dumps({"worlds": done, "ops": ops, "seconds": seconds, "violations": violations})
        )
    else:
        for seed, violation in violations:
            print(f"seed {seed}: {violation}")
        print(f"{done:,} worlds, {ops:,} ops, {seconds:.0f} s: {len(violations)} violations")
    return 1 if violations else 0
