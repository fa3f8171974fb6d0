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
  holdfast simulate --seed 1 --count 100000     many worlds, and which of them break a guarantee;
                                                ctrl-C says how to go on
  holdfast simulate --count 2000 --hashes       to compare with another build: what must not change
                                                what happens leaves every hash as it is
  holdfast simulate --scenario lost.txt         a world written by hand, or by --print
  holdfast simulate --lanes --count 100000      links of several connections, which break
  holdfast simulate --state --count 100000      snapshots of jobs that lose keepers, hosts and disks
"""
_CHUNK = 100
# Of FNV-1a.
_HASH_FACTOR = 0x100000001B3


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
    parser.add_argument(
        "--lanes",
        action="store_true",
        help="two ends of one link, whose connections are reset, go mute, and come anew",
    )
    parser.add_argument(
        "--state",
        action="store_true",
        help="a job that takes snapshots, whose keepers, hosts and disks are lost or damaged",
    )
    parser.add_argument("--print", action="store_true", help="print the scenario, do not run it")
    parser.add_argument(
        "--shrink", action="store_true", help="of a violation, keep only what it needs"
    )
    parser.add_argument(
        "--hashes", action="store_true", help="with --count: print the hash of each world's events"
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
    own = "--lanes" if arguments.lanes else "--state" if arguments.state else ""
    both = arguments.lanes and arguments.state
    if own and (both or arguments.scenario or arguments.coordinator or arguments.shrink):
        print(f"{own} goes with --seed, --count, --print, --hashes and --json", file=sys.stderr)
        return 2
    if arguments.count > 1:
        return _many(arguments)
    if arguments.lanes:
        return _one_link(arguments)
    if arguments.state:
        return _one_job(arguments)
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


def _one_link(arguments: argparse.Namespace) -> int:
    text = _core.make_lane_scenario(arguments.seed)
    if arguments.print:
        print(text, end="")
        return 0
    verdict = _core.simulate_lanes(arguments.seed)
    if arguments.json:
        print(json.dumps({"scenario": text, **verdict}))
    else:
        print(text, end="")
        print(*verdict["log"], sep="\n")
        print(
            f"{verdict['seconds'] * 1e3:.3f} ms, {verdict['frames']} frames, "
            f"{verdict['connections']} connections, {verdict['sent_again']} bytes sent again: "
            f"{verdict['violation'] or 'all arrived once and in order'}"
        )
    return 1 if verdict["violation"] else 0


def _one_job(arguments: argparse.Namespace) -> int:
    text = _core.make_state_scenario(arguments.seed)
    if arguments.print:
        print(text, end="")
        return 0
    verdict = _core.simulate_state(arguments.seed)
    if arguments.json:
        print(json.dumps({"scenario": text, **verdict}))
    else:
        print(text, end="")
        print(*verdict["log"], sep="\n")
        print(
            f"{verdict['seconds'] * 1e3:.3f} ms, {verdict['commits']} snapshots, "
            f"{verdict['flushes']} flushed, {verdict['restores']} restores: "
            f"{verdict['violation'] or 'all guarantees kept'}"
        )
    return 1 if verdict["violation"] else 0


class _Tally:
    """What a range of worlds has come to so far, all up to some seed.

    Parameters
    ----------
    arguments : argparse.Namespace
        The command's.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._seed: int = arguments.seed
        self._count: int = arguments.count
        self._kind = " --coordinator" if arguments.coordinator else ""
        self.unit = "ops"
        if arguments.lanes:
            self._kind, self.unit = " --lanes", "frames"
        if arguments.state:
            self._kind, self.unit = " --state", "snapshots"
        self._out = sys.stderr if arguments.json else sys.stdout
        self._begun = self._told = time.monotonic()
        self.done = self.ops = self.hash = 0
        self.violations: list[tuple[int, str]] = []

    def add(self, ops: int, broken: list[tuple[int, str]], hashes: list[int]) -> None:
        """Take the next worlds in, and say which of them break a guarantee.

        Parameters
        ----------
        ops : int
            That ended in them; of links, frames that arrived; of jobs, committed snapshots.
        broken : list of (int, str)
            Seeds and what is wrong.
        hashes : list of int
            Of all of them.
        """
        self.done += len(hashes)
        self.ops += ops
        for each in hashes:
            self.hash = (self.hash * _HASH_FACTOR + each) % 2**64
        self.violations += broken
        for seed, violation in broken:
            print(f"--seed {seed}{self._kind}: {violation}", file=self._out, flush=True)
        now = time.monotonic()
        if now - self._told > (1 if sys.stderr.isatty() else 30):
            self._told = now
            end = "\r" if sys.stderr.isatty() else "\n"
            print(self, end=end, file=sys.stderr, flush=True)

    def seconds(self) -> float:
        """Return how long it has taken so far.

        Returns
        -------
        float
            In seconds.
        """
        return time.monotonic() - self._begun

    def rest(self) -> str:
        """Return the options that go on from here.

        Returns
        -------
        str
            As on the command line.
        """
        left = self._count - self.done
        return f"--seed {self._seed + self.done} --count {left}{self._kind}"

    def __str__(self) -> str:
        rate = self.done / max(self.seconds(), 1e-9)
        some = f" of {self._count:,}" if self.done < self._count else ""
        return f"{self.done:,}{some} worlds, {len(self.violations)} violations, {rate:.0f} worlds/s"


def _many(arguments: argparse.Namespace) -> int:
    ends = arguments.seed + arguments.count
    starts = range(arguments.seed, ends, _CHUNK)
    tally = _Tally(arguments)
    pool = ThreadPoolExecutor(max(1, arguments.jobs))
    try:
        sizes = [min(_CHUNK, ends - start) for start in starts]
        outside = [arguments.coordinator] * len(sizes)
        if arguments.lanes:
            done = pool.map(_core.simulate_many_lanes, starts, sizes)
        elif arguments.state:
            done = pool.map(_core.simulate_many_states, starts, sizes)
        else:
            done = pool.map(_core.simulate_many, starts, sizes, outside)
        for some, broken, hashes in done:
            tally.add(some, broken, hashes)
            if arguments.hashes:
                first = arguments.seed + tally.done - len(hashes)
                for seed, each in enumerate(hashes, first):
                    print(f"{seed} {each:016x}", flush=True)
    except KeyboardInterrupt:
        print(f"{tally}; to go on: {tally.rest()}", file=sys.stderr)
        return 130
    finally:
        # What runs ends first: a few seconds.
        pool.shutdown(cancel_futures=True)
    seconds = tally.seconds()
    if arguments.json:
        print(
            json.dumps(
                {
                    "worlds": tally.done,
                    tally.unit: tally.ops,
                    "seconds": seconds,
                    "hash": f"{tally.hash:016x}",
                    "violations": tally.violations,
                }
            )
        )
    else:
        print(f"{tally}, {tally.ops:,} {tally.unit}, {seconds:.0f} s, hash {tally.hash:016x}")
    return 1 if tally.violations else 0
