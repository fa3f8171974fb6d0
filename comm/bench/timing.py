"""How it is measured: contestants take turns, every block of calls begins at a barrier.

The time of a case is the median over the rounds of the slowest rank's mean. Percentiles are those
of single calls, of the slowest rank each. A barrier lets ranks go up to milliseconds apart where
they are more than the cores; the first calls after it, in which they find together, are not timed.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.comm.bench.contestants import Contestant, Prepared
from holdfast.comm.bench.plan import Case
from holdfast.errors import HoldfastError

# A block of calls that is this long averages the scheduler's whims.
_BLOCK_S = 0.05
_MOST_CALLS = 2000
# Untimed, at the beginning of a block that has more.
_WARM_UP = 5


class WrongResult(HoldfastError):
    """A contestant gave other values than the collective promises."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of one call."""

    mean: float
    p50: float
    p95: float
    p99: float


def percentile(sorted_values: Sequence[float], fraction: float) -> float:
    """Return the smallest value that at least `fraction` of all do not exceed."""
    index = max(0, -(-len(sorted_values) * int(fraction * 100) // 100) - 1)
    return sorted_values[min(index, len(sorted_values) - 1)]


def _block(prepared: Prepared, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        prepared.call()
        times.append(time.perf_counter() - began)
    return times


def _calls_per_block(
    prepared: Prepared,
    slowest: Callable[[list[float]], list[float]],
    barrier: Callable[[], object],
) -> int:
    """Return how many calls fill a block; the same on all ranks."""
    calls = 1
    while True:
        barrier()
        _block(prepared, min(calls, _WARM_UP))
        took = slowest([sum(_block(prepared, calls))])[0]
        if took > _BLOCK_S / 10 or calls == _MOST_CALLS:
            return max(1, min(_MOST_CALLS, int(calls * _BLOCK_S / max(took, 1e-7))))
        calls = min(_MOST_CALLS, calls * 4)


def _check(contestant: Contestant, case: Case, prepared: Prepared) -> None:
    if prepared.expected is None:
        return
    found = prepared.result.flatten()[0]
    value = float(found.real if hasattr(found, "real") else found)
    if abs(value - prepared.expected) > 0.05 * prepared.expected:
        raise WrongResult(
            f"{contestant.name}: {case.collective} of {case.size} bytes of {case.dtype} gave "
            f"{value} where {prepared.expected} was due"
        )


def measure(
    contestants: Sequence[Contestant],
    case: Case,
    rounds: int,
    slowest: Callable[[list[float]], list[float]],
    barrier: Callable[[], object],
) -> dict[str, Times]:
    """Time one case.

    Parameters
    ----------
    contestants : sequence of Contestant
        The same, in the same order, on every rank.
    case : Case
        What to run.
    rounds : int
        Turns of each contestant.
    slowest : callable
        Takes this rank's numbers, returns the largest of all ranks', elementwise.
    barrier : callable
        Outside of all contestants.

    Returns
    -------
    dict of str to Times
        By contestant; those that have no such case are missing.

    Raises
    ------
    WrongResult
        When the first call's values are wrong.
    """
    running = []
    for contestant in contestants:
        prepared = contestant.prepare(case)
        if prepared is None:
            continue
        barrier()
        try:
            prepared.call()  # pays for connections
        except RuntimeError as error:
            # gloo, on all ranks alike.
            if "Invalid scalar type" not in str(error):
                raise
            continue
        _check(contestant, case, prepared)
        calls = _calls_per_block(prepared, slowest, barrier)
        running.append((contestant.name, prepared, calls))
    means: dict[str, list[float]] = {name: [] for name, _, _ in running}
    singles: dict[str, list[float]] = {name: [] for name, _, _ in running}
    gc.disable()
    for _ in range(rounds):
        for name, prepared, calls in running:
            barrier()
            _block(prepared, min(calls, _WARM_UP))
            times = _block(prepared, calls)
            worst = slowest([sum(times) / calls, *times])
            means[name].append(worst[0])
            singles[name] += worst[1:]
    gc.enable()
    half = 2 if case.collective == "send_recv" else 1  # there and back
    found = {}
    for name, _, _ in running:
        ordered = sorted(singles[name])
        found[name] = Times(
            statistics.median(means[name]) / half,
            *(percentile(ordered, f) / half for f in (0.5, 0.95, 0.99)),
        )
    return found
