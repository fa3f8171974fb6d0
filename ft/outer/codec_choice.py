"""Which of the listed codecs progress travels as: a pure function of numbers that members agree on.

No clock, no group and no tensor. **The rule**: the least lossy codec whose round is at most 3 %
longer than the shortest that any of the list would give. Where exchanges run beside the computation
that is the least lossy one that is hidden; where members wait for them, the least lossy one that
costs little; and where none is hidden or cheap, one of those with the shortest round.

**What keeps it from going to and fro**: a run begins with the smallest frames. Two reports in a row
have to agree, of exchanges that have begun after the latest change. To frames that are larger it
goes only with a quarter of the rate in reserve, and after a change only when the room (bytes that
could be sent during a round's computation) has grown by two fifths; to others, only when rounds are
6 % longer than need be. A codec that was too slow from the first report on has been predicted
wrongly, and is not tried again in the same room. Why: docs/decisions/0181-a-codec-is-agreed-on.md
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.ft.outer.round_time import Rates, Shape, exchange_s, round_s
from holdfast.topology.codec_cost import CodecCost
from holdfast.topology.link_fit import LinkModel

# Of the shortest round: what costs little, and what is too much of it.
LITTLE = 1.03
_TOO_MUCH = 1.06
# The part of the rate that larger frames may need; what others are chosen by.
RESERVE = 0.75
_CAUTION = 0.8
# By which factor two reports may differ and agree, and by which the room must have grown.
_ALIKE = 1.3
_GROWN = 1.4
# At least this part of an exchange was not coding: coding runs beside sending, in part.
_LEAST_SENDING = 0.5


@dataclass(frozen=True, slots=True)
class Told:
    """What a member tells of an exchange that it has measured, and of itself.

    Parameters
    ----------
    frame : float
        Bytes of a frame; 0: it has measured none.
    whole_s : float
        From its begin to its end.
    latency_s : float
        Of some bytes that were sent at the same time.
    coding_s : float
        What encoding and decoding took of it, as this member predicts it.
    step_s : float
        Computation of a local step, lately.
    speeds : tuple of float
        Seconds that a byte takes to be encoded, then to be decoded, of each listed codec.
    """

    frame: float
    whole_s: float
    latency_s: float
    coding_s: float
    step_s: float
    speeds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What all members agree on; made of what each has told.

    Parameters
    ----------
    rates : Rates
        Of links and members.
    speeds : tuple of float
        As in `Told`, of the slowest member.
    """

    rates: Rates
    speeds: tuple[float, ...]

    def room(self, shape: Shape) -> float:
        """Return the bytes that could be sent during the computation of a round."""
        return shape.inner_steps * self.rates.step_s / self.rates.link.beta

    def at(self, part: float) -> Report:
        """Return the same at a part of the rate."""
        link = replace(self.rates.link, beta=self.rates.link.beta / part)
        return replace(self, rates=replace(self.rates, link=link))


def agreed(told: Sequence[Told]) -> Report | None:
    """Return what members agree on; None where nobody has measured.

    The last to begin has waited for nobody, so the least time is the exchange's.

    Parameters
    ----------
    told : sequence of Told
        By those who are there, the same on all of them.
    """
    measured = [one for one in told if one.frame > 0 and one.step_s > 0]
    if not measured or len(told) < 2:
        return None
    latency = min(one.latency_s for one in measured)
    sending = [
        max(one.whole_s - latency - one.coding_s, _LEAST_SENDING * (one.whole_s - latency))
        for one in measured
    ]
    wire = 2 * (len(told) - 1) / len(told) * statistics.median_low(one.frame for one in measured)
    link = LinkModel(latency / 2, max(min(sending), 1e-9) / wire, 0.0)
    speeds = tuple(max(column) for column in zip(*(one.speeds for one in told), strict=True))
    return Report(Rates(len(told), max(one.step_s for one in measured), link), speeds)


@dataclass(frozen=True, slots=True)
class Listed:
    """A codec of the list.

    Parameters
    ----------
    codec : str
        Its text.
    ratio : float
        Bytes of its frame by bytes of float32.
    """

    codec: str
    ratio: float


@dataclass(frozen=True, slots=True)
class State:
    """What the choice goes by beside the next report; the same on all members.

    Parameters
    ----------
    index : int
        Of the codec in the list.
    since : int
        The number of the first exchange that travelled as it.
    anchor : float
        The room that has to grow before larger frames are tried; 0: none, below 0: that of the next
        pair of reports that agree.
    is_proven : bool
        Whether a pair of reports has shown that its rounds are short.
    latest : Report, optional
        The latest one; the next has to agree with it.
    before : int
        The codec before, -1 of the first.
    reason : Report, optional
        Which made the change.
    """

    index: int
    since: int = 0
    anchor: float = 0.0
    is_proven: bool = False
    latest: Report | None = None
    before: int = -1
    reason: Report | None = None


def _cost(listed: Sequence[Listed], index: int, report: Report) -> CodecCost:
    return CodecCost(listed[index].ratio, *report.speeds[2 * index : 2 * index + 2])


def rounds_s(shape: Shape, listed: Sequence[Listed], report: Report) -> list[float]:
    """Return the seconds of a round with each codec.

    Parameters
    ----------
    shape : Shape
        Of the round.
    listed : sequence of Listed
        The codecs.
    report : Report
        What members agree on.
    """
    return [round_s(shape, report.rates, _cost(listed, i, report)) for i in range(len(listed))]


def coding_s(
    count: int, members: int, listed: Sequence[Listed], index: int, speeds: tuple[float, ...]
) -> float:
    """Return the seconds that encoding and decoding take of an exchange.

    Parameters
    ----------
    count : int
        Elements.
    members : int
        That exchange.
    listed : sequence of Listed
        The codecs.
    index : int
        Of that which it travels as.
    speeds : tuple of float
        As in `Told`.
    """
    none = Rates(members, 0.0, LinkModel(0.0, 0.0, 0.0))
    return exchange_s(count, none, _cost(listed, index, Report(none, speeds)))


def after(
    state: State, number: int, report: Report, of: int, shape: Shape, listed: Sequence[Listed]
) -> State:
    """Return the state after a report.

    Parameters
    ----------
    state : State
        Before it.
    number : int
        Of the exchange that is about to begin.
    report : Report
        What members agree on.
    of : int
        The number of the exchange that it is of.
    shape : Shape
        Of the round.
    listed : sequence of Listed
        The codecs, from the least lossy to the most.
    """
    if of < state.since:
        return state
    latest = state.latest
    if latest is None or not _agree(latest, report, shape):
        return replace(state, latest=report)
    now = _between(latest, report)
    state = replace(state, latest=report)
    rounds = rounds_s(shape, listed, now)
    room = now.room(shape)
    if rounds[state.index] > _TOO_MUCH * min(rounds):
        chosen = _least_lossy(rounds_s(shape, listed, now.at(_CAUTION)))
        if chosen != state.index:
            # Of a codec that was predicted wrongly, the room is known when another one travels.
            anchor = room if state.is_proven else -1.0
            return State(chosen, number, anchor, False, None, state.index, now)
        return state
    state = replace(state, is_proven=True, anchor=room if state.anchor < 0 else state.anchor)
    if room >= _GROWN * state.anchor:
        chosen = _least_lossy(rounds_s(shape, listed, now.at(RESERVE)))
        if chosen < state.index:
            return State(chosen, number, room, False, None, state.index, now)
    return state


def _agree(one: Report, other: Report, shape: Shape) -> bool:
    rooms = one.room(shape), other.room(shape)
    return max(rooms) <= _ALIKE * min(rooms)


def _between(one: Report, other: Report) -> Report:
    """Return the middle of two reports that agree."""
    links = one.rates.link, other.rates.link
    link = LinkModel(
        math.sqrt(links[0].alpha * links[1].alpha), math.sqrt(links[0].beta * links[1].beta), 0.0
    )
    step = math.sqrt(one.rates.step_s * other.rates.step_s)
    return replace(other, rates=replace(other.rates, step_s=step, link=link))


def _least_lossy(rounds: Sequence[float]) -> int:
    shortest = min(rounds)
    return next(index for index, seconds in enumerate(rounds) if seconds <= LITTLE * shortest)


def told_of(state: State, shape: Shape, listed: Sequence[Listed]) -> str:
    """Return in words why the codec is what it is.

    Parameters
    ----------
    state : State
        The present one.
    shape : Shape
        Of the round.
    listed : sequence of Listed
        The codecs.
    """
    name = listed[state.index].codec
    if state.reason is None:
        return f"{name}: the smallest frames, until rates have been measured"
    rates = state.reason.rates
    rounds = [
        f"{seconds:.3g} s with {one.codec}"
        for one, seconds in zip(listed, rounds_s(shape, listed, state.reason), strict=True)
    ]
    return (
        f"{name} instead of {listed[state.before].codec}: at {8e-6 / rates.link.beta:.3g} Mbit/s, "
        f"a round trip of {2e3 * rates.link.alpha:.3g} ms and "
        f"{shape.inner_steps * rates.step_s:.3g} s of computation a round takes {', '.join(rounds)}"
    )
