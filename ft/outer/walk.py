"""What is done with the fragments of one member: exchanges begin, end, and are mixed in.

A method says what it sends of a fragment, and how the mean goes into the parameters; when, is the
table's (`rounds`). What is shared by all members lies in fixed tensors, written in place, so that a
newcomer takes it over and a checkpoint has it. Why: docs/decisions/0175-rounds-are-data.md
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from holdfast.compress.codec import Codec
from holdfast.errors import HoldfastError, PeerLost
from holdfast.ft.outer import mean, mixing, seat, shards, shared
from holdfast.ft.outer.counted import Counted
from holdfast.ft.outer.flat import Flat, Model, trained
from holdfast.ft.outer.flights import Failed, Flight, Flights
from holdfast.ft.outer.late import Absence, Carried, Meeting, discount, warn_of_late
from holdfast.ft.outer.optimizers import OuterOptimizer, is_average
from holdfast.ft.outer.report import OuterStep, warn_of
from holdfast.ft.outer.rounds import Event, Rounds


class Walk(Counted):
    """The fragments of a member; not made by itself: a `Trainer` is one.

    Parameters
    ----------
    model, inner, group, rounds, outer, codec
        As of a `Trainer`.
    stands_in : bool
        Whether a member that is late has a stand-in.
    """

    method: ClassVar[str]

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any,
        rounds: Rounds,
        outer: OuterOptimizer,
        codec: Codec | str | None,
        stands_in: bool = False,
    ) -> None:
        self.inner = inner
        self.rounds = rounds
        self.outer = outer
        self.last: OuterStep | None = None
        """The latest outer step; None before the first."""
        self._seat = seat.take(group, codec, self.method)
        self._parameters = trained(model)
        if self._seat.inside is None:
            shards.refuse_any(self._parameters)
        else:
            shards.refuse_beyond(self._parameters, self._seat.inside.ranks)
        parts = [[self._parameters[name] for name in part] for part in rounds.parts]
        self._flats = [Flat(part) for part in parts]
        self._replicas = [shards.Replicas(part) for part in parts]
        # A codec takes progress, which is small, rather than parameters.
        self._averages = is_average(outer) and self._seat.codec is None
        self.shared = shared.tensors(self._flats, rounds, outer)
        """What is the same on all members, for programs that sync or look at it."""
        self._seat.start(self.shared, rounds, [flat.count for flat in self._flats])
        samples = torch.zeros(len(self._flats), dtype=torch.float64)
        self._own: dict[str, torch.Tensor] = {"samples": samples}
        self._flights = Flights(self.shared)
        self._absence = Absence(self._flats, self._own, stands_in)
        # Before the exchange that begins next, and who was late at the latest one that has ended.
        self._meeting: Meeting | None = None
        self._late: dict[int, float] = {}

    @property
    def steps(self) -> int:
        """Local steps since the beginning of the run, the same on all members.

        With `global_batch` a round counts as `inner_steps`, however many a member does.
        """
        return int(self.shared["steps"][0])

    @property
    def is_in_site(self) -> bool:
        """Whether the group is a `Site`."""
        return self._seat.inside is not None

    # ---- what methods change ---------------------------------------------------------------------

    def _sends(self, fragment: int, local: torch.Tensor) -> torch.Tensor:
        """Return what this member brings to the mean; may overwrite `local`."""
        return local if self._averages else self._progress(fragment, self._outer(fragment), local)

    def _progress(self, fragment: int, outer: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
        """Return how far this member has come from shared parameters."""
        return self._flats[fragment].rounded(outer) - local

    def _begin_mean(
        self, fragment: int, sent: torch.Tensor, share: mean.Share
    ) -> mean.MeanUnderWay:
        own = self._seat
        return mean.begin(own.exchange, sent, share, own.codec, own.native)

    def _put_own(self, fragment: int) -> None:
        """Put this member's part in, when its exchange has begun."""

    def _take_back(self, fragment: int) -> None:
        """Undo what `_put_own` did: the exchange has failed."""

    def _outer_step(self, fragment: int, arrived: mean.Mean) -> None:
        """Make the new shared parameters."""
        if self._averages:
            self._outer(fragment).copy_(arrived.value)
        else:
            self.outer.update(self._outer(fragment), arrived.value, self._state(fragment))

    def _is_in(self, fragment: int) -> None:
        """Forget what this member has sent: it is in the shared parameters."""

    def _put(self, fragment: int, outer: torch.Tensor) -> None:
        """Put shared parameters into the model."""
        self._flats[fragment].write(outer)

    def _restart(self, fragment: int) -> None:
        """Begin anew from the shared parameters."""
        self._flats[fragment].write(self._outer(fragment))

    # ---- what is done with a fragment -----------------------------------------------------------

    def _do(self, event: Event) -> None:
        acts = {"begin": self._begin, "own": self._put_own, "end": self._end, "mix": self._mix}
        if event.act != "own" or not self._absence.is_on:
            acts[event.act](event.fragment)

    def _begin(self, fragment: int) -> None:
        samples, absence = self._own["samples"], self._absence
        if absence.is_on:
            absence.begins(fragment, self._outer(fragment))
            sent, own = self._flats[fragment].zeros(), 0.0
        else:
            sent = self._sends(fragment, self._flats[fragment].read())
            own = float(samples[fragment])
        weight = count = own
        if (carried := absence.take(fragment)) is not None:
            sent = carried.joined(sent, own, self._outer(fragment) if self._averages else None)
            weight, count = own + carried.weight, own + carried.samples
        finite = bool(torch.isfinite(sent).all())
        if self._seat.inside is not None:
            count, finite = self._seat.inside.total(own, finite)
            weight = count
        share = mean.Share(weight, float(self.shared["unit"][fragment]), finite, count)
        self._seat.exchange.asked([sent])
        under_way = self._begun(fragment, sent, share)
        meeting, self._meeting = self._meeting, None
        self._flights.under_way[fragment] = Flight(under_way, own, carried, meeting)
        self.shared["steps"][1 + fragment] = self.steps
        if not absence.is_on:
            samples[fragment] = 0
            if not finite:
                self._start_over()

    def _begun(self, fragment: int, sent: torch.Tensor, share: mean.Share) -> mean.MeanUnderWay:
        try:
            return self._begin_mean(fragment, sent, share)
        except HoldfastError as error:
            if self._seat.inside is None:
                raise
            # The other ranks of the site hear of it where they wait for theirs.
            return Failed(error)

    def _catch_up(self) -> None:
        """Have what was done without this member done to its model; its progress is carried."""
        missed, self._absence.missed = self._absence.missed, {}
        is_finite = True
        for fragment, one in sorted(missed.items()):
            if one.has_failed:
                self._take_back(fragment)
            if one.is_due:
                self._put(fragment, self._outer(fragment) if one.base is None else one.base)
            if one.base is None:
                continue
            local, samples = self._flats[fragment].read(), float(self._own["samples"][fragment])
            progress = self._progress(fragment, one.base, local)
            is_finite = is_finite and bool(torch.isfinite(progress).all())
            if samples:
                weight = samples * discount(one.begins)
                self._absence.carry(fragment, Carried(progress, weight, samples))
            self._own["samples"][fragment] = 0
            self._restart(fragment)
        if not is_finite:
            self._start_over()

    def _start_over(self) -> None:
        """Drop all local progress: what is not finite in one fragment soon is in the others."""
        self._own["samples"].zero_()
        for fragment, flat in enumerate(self._flats):
            flat.mend(self.inner)
            self._restart(fragment)

    def _end(self, fragment: int) -> None:
        flight = self._flights.under_way.pop(fragment, None)
        if flight is None:
            return
        try:
            arrived = self._wait(flight)
        except HoldfastError:
            self._own["samples"][fragment] += flight.weight
            if flight.carried is not None:
                self._absence.carry(fragment, flight.carried)
            if not self._absence.fails(fragment):
                self._take_back(fragment)
            raise
        self._hear_of_late(flight.meeting)
        self._replicas[fragment].take_firsts(arrived.value)
        if not arrived.is_empty:
            self.shared["unit"][fragment] = arrived.unit
        self._flights.arrived[fragment] = arrived
        self._counted(fragment, arrived)
        if arrived.not_finite:
            warn_of(arrived.not_finite, self.method, self.steps)

    def _wait(self, flight: Flight) -> mean.Mean:
        inside = self._seat.inside
        return flight.under_way.wait() if inside is None else inside.commit(flight.under_way)

    def _hear_of_late(self, meeting: Meeting | None) -> None:
        late = {} if meeting is None else meeting.wait().late
        warn_of_late(late, self._late, self.method, self.steps)
        self._late = late

    def _mix(self, fragment: int) -> None:
        arrived = self._flights.arrived.pop(fragment, None)
        if arrived is None:
            return
        length = mixing.norm(arrived.value)
        # Where nobody had anything to say, there is no outer step: no momentum goes on alone.
        if not arrived.is_empty:
            self._outer_step(fragment, arrived)
        self._is_in(fragment)
        if not self._absence.mixes(fragment):
            self._put(fragment, self._outer(fragment))
        told = (arrived.weights, arrived.not_finite, length, *self._seat.told)
        self.last = OuterStep(self.steps, fragment, *told, tuple(sorted(self._late)))

    def _settle(self) -> None:
        """Wait for what is under way; the table says when it is mixed in."""
        failed: PeerLost | None = None
        for fragment in self._flights.in_order():
            try:
                self._end(fragment)
            except PeerLost as error:
                failed = error
        self._flights.keep()
        if failed is not None:
            raise failed

    def _outer(self, fragment: int) -> torch.Tensor:
        return self.shared[f"outer/{fragment}"]

    def _state(self, fragment: int) -> dict[str, torch.Tensor]:
        names = self.outer.state_of(self._flats[fragment].count)
        return {name: self.shared[f"{name}/{fragment}"] for name in names}
