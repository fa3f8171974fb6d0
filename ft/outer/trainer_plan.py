"""Which trainer, with which rounds, suits a model, its computation and the links: a pure function.

The rule: of the shortest round in which exchanges cost at most 3 %, with a quarter of the rate in
reserve, and there the least lossy codec. In each round ``DiLoCo`` is tried first, whose members
wait, then ``StreamingDiLoCo``, which hides a fragment at a time behind as few local steps as it
needs: as much as methods hide whose exchange has the whole round, with progress that is less stale.
Where nothing is hidden it is the least exposed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from holdfast.errors import ConfigError
from holdfast.ft.outer.codec_choice import LITTLE, RESERVE, Report
from holdfast.ft.outer.round_time import ELEMENT_BYTES, Rates, Shape, exchange_s, exposed_s
from holdfast.topology.codec_cost import CodecCost

METHODS = ("DiLoCo", "StreamingDiLoCo", "AsyncDiLoCo", "CO2")
# Local steps of a round that are tried, the least first: the longer, the less is learned in a step.
INNER_STEPS = (10, 20, 50, 100, 200, 500, 1000)
_DAY_S = 86400.0
_WAITING = "DiLoCo"
_STREAMING = "StreamingDiLoCo"
_FRAGMENTS = 2


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be trained, and where.

    Parameters
    ----------
    parameters : int
        Elements that are shared.
    rates : Rates
        Of members and links.
    codecs : tuple of (str, CodecCost)
        That may be used, from the least lossy to the most.
    methods : tuple of str
        Of `METHODS`, in the order in which they are tried.
    inner_steps : tuple of int
        That may be used, in that order.
    fragments : int
        Of `StreamingDiLoCo`.
    """

    parameters: int
    rates: Rates
    codecs: tuple[tuple[str, CodecCost], ...]
    methods: tuple[str, ...] = (_WAITING, _STREAMING)
    inner_steps: tuple[int, ...] = INNER_STEPS
    fragments: int = _FRAGMENTS


@dataclass(frozen=True, slots=True)
class TrainerPlan:
    """A trainer, and what it should do.

    Parameters
    ----------
    method : str
        Its name in ``holdfast.ft``.
    inner_steps, fragments, delay : int
        Its arguments.
    codec : str
        What progress travels as.
    compute_s, round_s : float
        Of a round: the computation, and all of it.
    exchange_s : float
        Of a fragment's exchange.
    exposed : float
        The part of a round in which members only wait.
    hidden : float
        The part of the exchanges' time that is beside the computation.
    bytes_per_day : float
        That a member sends.
    peak_bytes_per_s : float
        That a member sends while an exchange is under way, where it takes all the time it has.
    is_enough : bool
        Whether exchanges cost little, with the reserve.
    """

    method: str
    inner_steps: int
    fragments: int
    delay: int
    codec: str
    compute_s: float
    round_s: float
    exchange_s: float
    exposed: float
    hidden: float
    bytes_per_day: float
    peak_bytes_per_s: float
    is_enough: bool


def plan(task: Task) -> TrainerPlan:
    """Return the plan of a task.

    Parameters
    ----------
    task : Task
        Model, members, links, and what may be chosen.

    Raises
    ------
    ConfigError
        For a task without a trainer.
    """
    _check(task)
    tried = [
        _planned(task, method, shape, codec, cost)
        for inner_steps, method in itertools.product(task.inner_steps, task.methods)
        for codec, cost in task.codecs
        for shape in [_shape(task, method, inner_steps, cost)]
    ]
    return next((one for one in tried if one.is_enough), min(tried, key=lambda one: one.exposed))


def predicted(task: Task, made: TrainerPlan, rates: Rates) -> TrainerPlan:
    """Return what a plan should do at other rates.

    Parameters
    ----------
    task : Task
        Of which it is.
    made : TrainerPlan
        The plan.
    rates : Rates
        Of members and links.
    """
    shape = Shape(_counts(task.parameters, made.fragments), made.inner_steps, made.delay)
    cost = dict(task.codecs)[made.codec]
    return _planned(replace(task, rates=rates), made.method, shape, made.codec, cost)


def _check(task: Task) -> None:
    if task.parameters < 1:
        raise ConfigError(f"parameters = {task.parameters}; accepted: 1 and more")
    if task.rates.members < 2:
        raise ConfigError(f"members = {task.rates.members}; accepted: 2 and more")
    if not (math.isfinite(task.rates.step_s) and task.rates.step_s > 0):
        raise ConfigError(f"seconds of a local step = {task.rates.step_s}; accepted: above 0")
    for name in task.methods:
        if name not in METHODS:
            raise ConfigError(f"method = {name!r}; accepted: {', '.join(METHODS)}")
    for inner_steps in task.inner_steps:
        if inner_steps < 1 or (_STREAMING in task.methods and inner_steps % task.fragments):
            raise ConfigError(
                f"inner_steps = {inner_steps}; accepted: a multiple of fragments = "
                f"{task.fragments}, 1 and more"
            )


def _shape(task: Task, method: str, inner_steps: int, cost: CodecCost) -> Shape:
    """Return the shape of a method's round; a stream has as little delay as it needs."""
    if method != _STREAMING:
        return Shape((task.parameters,), inner_steps, 0 if method == _WAITING else inner_steps)
    counts = _counts(task.parameters, task.fragments)
    took = exchange_s(counts[0], _with_reserve(task.rates), cost)
    # One fragment at a time: the next one begins when this one has arrived.
    stride = inner_steps // task.fragments
    most = min(stride, inner_steps - 1)
    return Shape(counts, inner_steps, min(most, max(1, math.ceil(took / task.rates.step_s))))


def _counts(parameters: int, fragments: int) -> tuple[int, ...]:
    each, more = divmod(parameters, fragments)
    return tuple(each + (part < more) for part in range(fragments))


def _with_reserve(rates: Rates) -> Rates:
    return Report(rates, ()).at(RESERVE).rates


def _planned(task: Task, method: str, shape: Shape, codec: str, cost: CodecCost) -> TrainerPlan:
    rates = task.rates
    compute = shape.inner_steps * rates.step_s
    exposed = exposed_s(shape, rates, cost)
    took = [exchange_s(count, rates, cost) for count in shape.counts]
    sent = 2 * (rates.members - 1) / rates.members * ELEMENT_BYTES * cost.ratio
    time = max(took[0], shape.delay * rates.step_s)
    return TrainerPlan(
        method=method,
        inner_steps=shape.inner_steps,
        fragments=len(shape.counts),
        delay=shape.delay,
        codec=codec,
        compute_s=compute,
        round_s=compute + exposed,
        exchange_s=took[0],
        exposed=exposed / (compute + exposed),
        hidden=1 - exposed / sum(took),
        bytes_per_day=sent * task.parameters * _DAY_S / (compute + exposed),
        peak_bytes_per_s=sent * shape.counts[0] / time,
        is_enough=exposed_s(shape, _with_reserve(rates), cost) <= (LITTLE - 1) * compute,
    )
