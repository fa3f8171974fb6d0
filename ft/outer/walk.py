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
from holdfast.ft.outer.optimizers import OuterOptimizer, is_average
from holdfast.ft.outer.report import OuterStep, warn_of
from holdfast.ft.outer.rounds import Event, Rounds


class Walk(Counted):
    """The fragments of a member; not made by itself: a `Trainer` is one.

    Parameters
    ----------
    model, inner, group, rounds, outer, codec
        As of a `Trainer`.
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
        if self._averages:
            return local
        return self._flats[fragment].rounded(self._outer(fragment)) - local

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

    def _put(self, fragment: int) -> None:
        """Put the shared parameters into the model."""
        self._flats[fragment].write(self._outer(fragment))

    def _restart(self, fragment: int) -> None:
        """Begin anew from the shared parameters."""
        self._flats[fragment].write(self._outer(fragment))

    # ---- what is done with a fragment -----------------------------------------------------------

    def _do(self, event: Event) -> None:
        acts = {"begin": self._begin, "own": self._put_own, "end": self._end, "mix": self._mix}
        acts[event.act](event.fragment)

    def _begin(self, fragment: int) -> None:
        sent = self._sends(fragment, self._flats[fragment].read())
        finite = bool(torch.isfinite(sent).all())
        samples = self._own["samples"]
        unit = float(self.shared["unit"][fragment])
        own = count = float(samples[fragment])
        if self._seat.inside is not None:
            count, finite = self._seat.inside.total(own, finite)
        share = mean.Share(count, unit, finite, count)
        self._seat.exchange.asked([sent])
        under_way = self._begun(fragment, sent, share)
        self._flights.under_way[fragment] = Flight(under_way, own)
        samples[fragment] = 0
        self.shared["steps"][1 + fragment] = self.steps
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
            self._take_back(fragment)
            raise
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

    def _mix(self, fragment: int) -> None:
        arrived = self._flights.arrived.pop(fragment, None)
        if arrived is None:
            return
        length = mixing.norm(arrived.value)
        # Where nobody had anything to say, there is no outer step: no momentum goes on alone.
        if not arrived.is_empty:
            self._outer_step(fragment, arrived)
        self._put(fragment)
        told = (arrived.weights, arrived.not_finite, length, *self._seat.told)
        self.last = OuterStep(self.steps, fragment, *told)

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
