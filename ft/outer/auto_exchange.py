"""An exchange that chooses among listed codecs, by what its members measure and agree on.

What is measured here is told to all in a table that begins with the next exchange, a few numbers a
member, and is summed as integers: every member has the same report. It counts when as many further
exchanges have begun as may be under way, so that all members know it, whenever they have waited.
The choice itself is a pure function (`codec_choice`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.comm import codec_speed
from holdfast.compress.exchange import Exchange, Pending
from holdfast.compress.forwarding import Forwarding
from holdfast.errors import HoldfastError
from holdfast.ft.outer import codec_choice, codec_list
from holdfast.ft.outer.codec_choice import Listed, Told
from holdfast.ft.outer.codec_record import Record
from holdfast.ft.outer.round_time import ELEMENT_BYTES, Shape
from holdfast.ft.outer.rounds import Rounds

_LOG = logging.getLogger("holdfast.ft")


class AutoExchange(Forwarding):
    """An exchange whose `mean` chooses what it travels as, alike on all members.

    Parameters
    ----------
    inner : Exchange
        What carries the bytes; its `mean` takes the listed codecs.
    codecs : sequence of str
        From the least lossy to the most.
    clock : callable
        Seconds that go on.

    Raises
    ------
    ConfigError
        Where larger frames are listed after smaller ones.
    """

    def __init__(
        self,
        inner: Exchange,
        codecs: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        costs = [codec_speed.measure(codec) for codec in codecs]
        codec_list.refuse_disorder(codecs, [cost.ratio for cost in costs])
        self._listed = [Listed(c, cost.ratio) for c, cost in zip(codecs, costs, strict=True)]
        self._speeds = tuple(speed for cost in costs for speed in (cost.encode, cost.decode))
        self._clock = clock
        self._flights: dict[int, _Flight] = {}
        # When the latest exchange began, after which local step, and how long members have waited
        # for exchanges since.
        self._began = clock()
        self._steps = 0
        self._blocked = 0.0

    def start(
        self, shared: Mapping[str, torch.Tensor], rounds: Rounds, counts: Sequence[int]
    ) -> dict[str, torch.Tensor]:
        """Begin a run, and return what of the choice is shared.

        Parameters
        ----------
        shared : mapping of str to torch.Tensor
            Of the trainer: its local steps are read.
        rounds : Rounds
            The table.
        counts : sequence of int
            Elements, by fragment.
        """
        self._shared = shared
        self._in_flight = rounds.in_flight
        self._shape = Shape(tuple(counts), rounds.inner_steps, rounds.delay)
        self._record = Record(len(self._listed), rounds.in_flight)
        text = codec_list.text_of([one.codec for one in self._listed])
        return {f"codec/{text}": self._record.tensor}

    @property
    def told(self) -> tuple[str, str]:
        """The codec of the exchange that began last, and why; the same on all members."""
        state = self._record.read()
        why = codec_choice.told_of(state, self._shape, self._listed)
        return self._listed[state.index].codec, why

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place, as the codec that is chosen, whatever `codec` says."""
        now = self._clock()
        number = self._record.number
        index = self._choose(number)
        own = self._row(number, now)
        flight = _Flight(index, tensor.numel(), _End(self._clock), _End(self._clock), self._clock())
        # Bits as integers, which no codec touches; each row has one writer, so their sum is exact.
        rows = torch.zeros(self.size, len(own), dtype=torch.float64)
        rows[self.rank] = torch.tensor(own, dtype=rows.dtype)
        bits = rows.view(torch.int64).to(tensor.device)
        table = flight.light.of(self.inner.sum(bits), tensor.is_cpu)
        data = super().mean(tensor, self._listed[index].codec, weight)
        flight.data.of(data, tensor.is_cpu)
        self._flights[number] = flight
        self._blocked += self._clock() - now
        return _Chosen(self, number, flight, table, data, bits)

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up in place."""
        return _Waited(self, super().sum(tensor))

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Collect rows."""
        return _Waited(self, super().gather(rows, own))

    def waited(self, seconds: float) -> None:
        """Take note that this member has waited."""
        self._blocked += seconds

    def clock(self) -> float:
        """Return the time, in seconds that go on."""
        return self._clock()

    def hear(self, number: int, bits: torch.Tensor) -> None:
        """Take in what members have told with an exchange.

        Parameters
        ----------
        number : int
            Its number.
        bits : torch.Tensor
            The table.
        """
        rows = [row for row in bits.cpu().view(torch.float64).tolist() if row[0]]
        self._record.keep(number, codec_choice.agreed([_told(row) for row in rows]))

    def _choose(self, number: int) -> int:
        before = self._record.read()
        state = before
        # What came with the exchange that must have ended by now was of one as long before that.
        report = self._record.kept(number - self._in_flight)
        if report is not None:
            of = number - 2 * self._in_flight
            state = codec_choice.after(before, number, report, of, self._shape, self._listed)
            self._record.write(state)
        self._record.number = number + 1
        if state.index != before.index:
            _LOG.info("exchange %d: %s", number, self.told[1])
        return state.index

    def _row(self, number: int, now: float) -> list[float]:
        """Return what this member tells: of the latest exchange that all have waited for.

        A row of the table: 1 of who is there, then as `Told` has it.
        """
        steps = int(self._shared["steps"][0])
        made = steps - self._steps
        step_s = max(0.0, now - self._began - self._blocked) / made if made > 0 else 0.0
        self._began, self._steps, self._blocked = now, steps, 0.0
        for old in [old for old in self._flights if old < number - self._in_flight]:
            del self._flights[old]
        flight = self._flights.pop(number - self._in_flight, None)
        row = [1.0, 0.0, 0.0, 0.0, 0.0, step_s, *self._speeds]
        if flight is not None and flight.light.at is not None and flight.data.at is not None:
            members = len(self.members)
            row[1] = ELEMENT_BYTES * flight.count * self._listed[flight.index].ratio
            row[2] = flight.data.at - flight.began
            row[3] = flight.light.at - flight.began
            row[4] = codec_choice.coding_s(
                flight.count, members, self._listed, flight.index, self._speeds
            )
        return row


def _told(row: Sequence[float]) -> Told:
    _, frame, whole_s, latency_s, coding_s, step_s, *speeds = row
    return Told(frame, whole_s, latency_s, coding_s, step_s, tuple(speeds))


class _End:
    """When an op has ended: told by the op where it can, else when it has been waited for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.at: float | None = None

    def of(self, op: Pending, on_host: bool) -> Pending:
        """Listen to an op. Futures of ops on a device end when those are enqueued."""
        inner: Any = op
        while (carried := getattr(inner, "pending", None)) is not None:
            inner = carried
        if (native := getattr(inner, "_native", None)) is not None:
            native.on_done(self.note)
        elif on_host and (future := getattr(inner, "get_future", None)) is not None:
            future().add_done_callback(lambda _: self.note())
        return op

    def note(self) -> None:
        if self.at is None:
            self.at = self._clock()


@dataclass(frozen=True, slots=True)
class _Flight:
    """An exchange that this member measures, with a table beside it, whose time is the latency."""

    index: int
    count: int
    light: _End
    data: _End
    began: float


class _Waited:
    """An op under way; what a member waits for it is not computation."""

    def __init__(self, owner: AutoExchange, op: Pending) -> None:
        self._owner = owner
        self._op = op

    def wait(self) -> None:
        began = self._owner.clock()
        try:
            self._op.wait()
        finally:
            self._owner.waited(self._owner.clock() - began)


class _Chosen:
    """An average under way, and what members tell beside it."""

    def __init__(
        self,
        owner: AutoExchange,
        number: int,
        flight: _Flight,
        table: Pending,
        data: Pending,
        bits: torch.Tensor,
    ) -> None:
        self._owner = owner
        self._number = number
        self._flight = flight
        self._table = table
        self._data: Any = data
        self._bits = bits

    @property
    def outcome(self) -> Any:
        """Whose data the average has, where what carries it knows that."""
        return self._data.outcome

    def wait(self) -> None:
        began = self._owner.clock()
        try:
            self._wait()
        finally:
            self._owner.waited(self._owner.clock() - began)

    def _wait(self) -> None:
        is_told = True
        try:
            self._table.wait()
            self._flight.light.note()
        except HoldfastError:
            # What was told is lost on all alike; the average has its own outcome.
            is_told = False
        self._data.wait()
        self._flight.data.note()
        if is_told:
            self._owner.hear(self._number, self._bits)
