"""Rounds as data: after which local step which fragment begins, ends and is mixed in.

No clock, no group and no tensor: the table follows from its arguments alone, so every member has
the same one, and begins the same collectives in the same order. It is checked before it is used, as
schedules of collectives are. Why: docs/decisions/0175-rounds-are-data.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import ConfigError

# begin: the exchange of a fragment is started. own: this member's part of it is put in. end: the
# exchange is waited for. mix: the mean becomes an outer step, and goes into the parameters.
Act = Literal["begin", "own", "end", "mix"]
Parts = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Event:
    """What is done with one fragment after one local step.

    Parameters
    ----------
    step : int
        The local step of the round, 1 to `inner_steps`.
    act : str
        ``"begin"``, ``"own"``, ``"end"`` or ``"mix"``.
    fragment : int
        Which one.
    """

    step: int
    act: Act
    fragment: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """The table of a round; all rounds are alike.

    An exchange that is under way at the end of a round ends in the next one. In a run's first round
    nothing is under way, and what would end such an exchange does nothing.

    Parameters
    ----------
    method : str
        Whose rounds these are.
    inner_steps : int
        Local steps of a round.
    delay : int
        Local steps from begin to end of an exchange.
    parts : tuple of tuple of str
        The parameters' names, by fragment.
    in_flight : int
        Exchanges that are under way at a time, at most.
    events : tuple of Event
        In the order in which they are done.
    """

    method: str
    inner_steps: int
    delay: int
    parts: Parts
    in_flight: int
    events: tuple[Event, ...]

    def after(self, step: int) -> Iterator[Event]:
        """Return what is done after a local step.

        Parameters
        ----------
        step : int
            Of the round, 1 to `inner_steps`.
        """
        return (event for event in self.events if event.step == step)

    def __str__(self) -> str:
        """A line on the whole, then one for each step after which something is done."""
        lines = [
            f"{self.method}: rounds of {self.inner_steps} local steps, "
            f"{len(self.parts)} fragment{'s' * (len(self.parts) != 1)}, delay {self.delay}, "
            f"at most {self.in_flight} in flight"
        ]
        for step in sorted({event.step for event in self.events}):
            done = ", ".join(f"{event.act} {event.fragment}" for event in self.after(step))
            lines.append(f"after step {step}: {done}")
        return "\n".join(lines)


def table(
    method: str, inner_steps: int, parts: Sequence[Sequence[str]], delay: int, own: bool = False
) -> Rounds:
    """Return the rounds of a method, checked.

    Fragments begin in turn, evenly over the round, the last one at its end (Streaming DiLoCo,
    arXiv:2501.18512, section 2.2); an exchange ends `delay` local steps later (section 2.3).
    After one step, what ends comes before what begins.

    Parameters
    ----------
    method : str
        Whose rounds these are.
    inner_steps : int
        Local steps of a round.
    parts : sequence of sequences of str
        The parameters' names, by fragment.
    delay : int
        0 (the members wait for the exchange) to `inner_steps` (it has a whole round).
    own : bool
        After it has begun an exchange, each member puts something of its own in.

    Raises
    ------
    ConfigError
        For numbers that make no table, with what is accepted.
    """
    count = len(parts)
    if inner_steps < 1:
        raise ConfigError(f"inner_steps = {inner_steps}; accepted: 1 and more")
    if count < 1:
        raise ConfigError("fragments = 0; accepted: 1 and more")
    if inner_steps % count:
        below = inner_steps // count * count
        near = " or ".join(str(n) for n in (below, below + count) if n)
        raise ConfigError(
            f"inner_steps = {inner_steps} with {count} fragments, which do not divide it; "
            f"accepted: a multiple of {count}, such as {near}"
        )
    if not 0 <= delay <= inner_steps:
        raise ConfigError(
            f"delay = {delay} with inner_steps = {inner_steps}; accepted: 0 to {inner_steps}: a "
            "fragment is exchanged once in a round"
        )
    stride = inner_steps // count
    begins = [(fragment + 1) * stride for fragment in range(count)]
    ends = [(step + delay - 1) % inner_steps + 1 for step in begins]
    events: list[Event] = []
    for step in range(1, inner_steps + 1):
        due = [Event(step, act, f) for f in _at(ends, step) for act in _END]
        fresh = [Event(step, act, f) for f in _at(begins, step) for act in _begin(own)]
        events += [*fresh, *due] if delay == 0 else [*due, *fresh]
    made = Rounds(
        method,
        inner_steps,
        delay,
        tuple(tuple(part) for part in parts),
        max(1, -(-delay // stride)),
        tuple(events),
    )
    check(made)
    return made


_END: tuple[Act, ...] = ("end", "mix")


def _begin(own: bool) -> tuple[Act, ...]:
    return ("begin", "own") if own else ("begin",)


def _at(steps: Sequence[int], step: int) -> list[int]:
    return [fragment for fragment, at in enumerate(steps) if at == step]


def check(rounds: Rounds) -> None:
    """Prove what every table must have, by walking it.

    Each parameter is in one fragment, and each fragment is begun, ended and mixed in once a round;
    an exchange ends `delay` steps after it has begun, before the next one of its fragment begins,
    and in the order in which they began; no more are under way than the table says.

    Parameters
    ----------
    rounds : Rounds
        The table.

    Raises
    ------
    ConfigError
        With the first thing that is wrong.
    """
    _check_parts(rounds)
    _check_counts(rounds)
    _check_walk(rounds)


def _wrong(rounds: Rounds, what: str) -> ConfigError:
    return ConfigError(f"rounds of {rounds.method}: {what}\n{rounds}")


def _check_parts(rounds: Rounds) -> None:
    names = Counter(name for part in rounds.parts for name in part)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise _wrong(rounds, f"parameter {twice[0]!r} is in two fragments; accepted: in one")
    empty = [fragment for fragment, part in enumerate(rounds.parts) if not part]
    if empty:
        raise _wrong(rounds, f"fragment {empty[0]} has no parameters; accepted: one and more")


def _check_counts(rounds: Rounds) -> None:
    done = Counter((event.fragment, event.act) for event in rounds.events)
    for fragment in range(len(rounds.parts)):
        for act in ("begin", "end", "mix"):
            if done[fragment, act] != 1:
                raise _wrong(
                    rounds,
                    f"fragment {fragment} has {done[fragment, act]} times {act!r} in a round; "
                    "accepted: once",
                )
    strange = sorted({fragment for fragment, _ in done} - set(range(len(rounds.parts))))
    if strange:
        raise _wrong(rounds, f"fragment {strange[0]}; accepted: 0 to {len(rounds.parts) - 1}")


def _check_walk(rounds: Rounds) -> None:
    steps = [event.step for event in rounds.events]
    if steps != sorted(steps) or steps[0] < 1 or steps[-1] > rounds.inner_steps:
        raise _wrong(rounds, f"steps are not in order within 1 to {rounds.inner_steps}")
    # Two rounds: an exchange of the first one may end in the second.
    flying: list[tuple[int, int]] = []
    ended: set[int] = set()
    for turn in range(2):
        for event in rounds.events:
            now = turn * rounds.inner_steps + event.step
            is_flying = event.fragment in [fragment for fragment, _ in flying]
            # In a run's first round nothing of a round before is under way.
            is_early = turn == 0 and event.step <= rounds.delay
            if event.act == "begin":
                if is_flying:
                    raise _wrong(rounds, f"fragment {event.fragment} begins before it has ended")
                flying.append((event.fragment, now))
            elif event.act == "end" and (is_flying or not is_early):
                _check_end(rounds, flying, event, now)
                ended.add(event.fragment)
            elif event.act == "mix":
                if event.fragment not in ended and not is_early:
                    raise _wrong(rounds, f"fragment {event.fragment} is mixed in before it ends")
                ended.discard(event.fragment)
            if len(flying) > rounds.in_flight:
                raise _wrong(
                    rounds, f"{len(flying)} in flight after step {now}; accepted: the stated number"
                )


def _check_end(rounds: Rounds, flying: list[tuple[int, int]], event: Event, now: int) -> None:
    if not flying:
        raise _wrong(rounds, f"fragment {event.fragment} ends before it begins")
    fragment, begun = flying.pop(0)
    if fragment != event.fragment:
        raise _wrong(rounds, f"fragment {event.fragment} ends before {fragment}, which began first")
    if now - begun != rounds.delay:
        raise _wrong(
            rounds, f"fragment {fragment} ends {now - begun} steps after its begin, not its delay"
        )
