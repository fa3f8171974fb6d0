"""What all outer-step trainers share: local steps, and a walk through the table of rounds.

A method says what it sends of a fragment, and how the mean goes into the parameters; when, is the
table's (`rounds`). What is shared by all members lies in fixed tensors, written in place, so that a
newcomer takes it over and a checkpoint has it. Why: docs/decisions/0175-rounds-are-data.md
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from holdfast.compress.codec import Codec
from holdfast.compress.options import require
from holdfast.compress.reducer import View
from holdfast.errors import HoldfastError, PeerLost
from holdfast.ft.outer import mean, mixing, seat, shared
from holdfast.ft.outer.boundary import Boundary
from holdfast.ft.outer.flat import Flat, Model, digests, trained
from holdfast.ft.outer.optimizers import OuterOptimizer, is_average
from holdfast.ft.outer.report import OuterStep, warn_of
from holdfast.ft.outer.rounds import Event, Rounds
from holdfast.ft.outer.saved import Saved


class _Flight(NamedTuple):
    under_way: mean.MeanUnderWay
    weight: float


class Trainer(Saved):
    """Local steps of an inner optimiser, and outer steps over the members of a group.

    Not made by itself; a method is a subclass. All members make theirs alike, from the same
    parameters, and call the same methods in the same order.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters. `step` calls it; gradients, and their zeroing, are the caller's.
    group : None, ProcessGroup, Group or Exchange
        None: torch's default group. Of any backend; members may come and go with ``holdfast``.
    rounds : Rounds
        When what is done.
    outer : OuterOptimizer
        What becomes of the mean progress.
    codec : Codec or str, optional
        What progress travels as.
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
        self._flats = [Flat([self._parameters[name] for name in part]) for part in rounds.parts]
        # A codec takes progress, which is small, rather than parameters.
        self._averages = is_average(outer) and self._seat.codec is None
        self.shared = shared.tensors(self._flats, rounds, outer)
        """What is the same on all members, for programs that sync or look at it."""
        samples = torch.zeros(len(self._flats), dtype=torch.float64)
        self._own: dict[str, torch.Tensor] = {"samples": samples}
        self._flights: dict[int, _Flight] = {}
        self._arrivals: dict[int, mean.Mean] = {}
        self._boundary = Boundary(self._seat)

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
        return mean.begin(own.exchange, sent, share, own.codec, own.contributors)

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

    # ---- local steps -----------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Local steps since the beginning of the run, the same on all members."""
        return int(self.shared["steps"][0])

    @property
    def at_boundary(self) -> bool:
        """Whether a round has just ended, or none has begun."""
        return self.steps % self.rounds.inner_steps == 0

    @torch.no_grad()
    def step(self, samples: float = 1.0) -> None:
        """Do a local step, and what the table says after it.

        Parameters
        ----------
        samples : float
            That this step's gradient is of: this member's weight in the mean is their sum over the
            round. Members may differ.

        Raises
        ------
        ConfigError
            At the first step, when the members' models or trainers differ, with their ranks.
        PeerLost, Timeout
            When an exchange failed: the progress that it had stays in the parameters, and goes into
            the next one.
        """
        fits = math.isfinite(samples) and samples >= 0
        require(fits, "samples", samples, "a number, 0 and more")
        if self.ledger is not None:
            self.ledger.done(samples)
        if self.steps == 0:
            self._compare()
        with torch.enable_grad():
            self.inner.step()
        self.shared["steps"][0] += 1
        self._own["samples"] += samples
        for event in self.rounds.after(self._place):
            is_last = event.act == "begin" and event.step == self.rounds.inner_steps
            if is_last and self._boundary.state is not None:
                self._pass_boundary(self._boundary.state, inside=True)
            self._do(event)

    @property
    def _place(self) -> int:
        return (self.steps - 1) % self.rounds.inner_steps + 1

    def _do(self, event: Event) -> None:
        if event.act == "begin":
            self._begin(event.fragment)
        elif event.act == "own":
            self._put_own(event.fragment)
        elif event.act == "end":
            self._end(event.fragment)
        else:
            self._mix(event.fragment)

    def _alike(self) -> str:
        """Return what all members must have alike, but for the model."""
        return f"{self.settings()}\n{self._seat.codec}\n{self.outer}"

    def _compare(self) -> None:
        told = digests(self._parameters, self._alike())
        seat.refuse_other_models(self._seat.exchange, told, self._flats[0].device)

    def _begin(self, fragment: int) -> None:
        sent = self._sends(fragment, self._flats[fragment].read())
        finite = bool(torch.isfinite(sent).all())
        samples = self._own["samples"]
        unit = float(self.shared["unit"][fragment])
        count = float(samples[fragment])
        share = mean.Share(count, unit, finite, count)
        self._seat.exchange.asked([sent])
        self._flights[fragment] = _Flight(self._begin_mean(fragment, sent, share), share.weight)
        samples[fragment] = 0
        self.shared["steps"][1 + fragment] = self.steps
        if not finite:
            self._start_over()

    def _start_over(self) -> None:
        """Drop all local progress: what is not finite in one fragment soon is in the others."""
        self._own["samples"].zero_()
        for fragment, flat in enumerate(self._flats):
            flat.mend(self.inner)
            self._restart(fragment)

    def _end(self, fragment: int) -> None:
        flight = self._flights.pop(fragment, None)
        if flight is None:
            return
        try:
            arrived = flight.under_way.wait()
        except HoldfastError:
            self._own["samples"][fragment] += flight.weight
            self._take_back(fragment)
            raise
        if not arrived.is_empty:
            self.shared["unit"][fragment] = arrived.unit
        self._arrivals[fragment] = arrived
        self._counted(fragment, arrived)
        if arrived.not_finite:
            warn_of(arrived.not_finite, self.method, self.steps)

    def _mix(self, fragment: int) -> None:
        arrived = self._arrivals.pop(fragment, None)
        if arrived is None:
            return
        length = mixing.norm(arrived.value)
        # Where nobody had anything to say, there is no outer step: no momentum goes on alone.
        if not arrived.is_empty:
            self._outer_step(fragment, arrived)
        self._put(fragment)
        self.last = OuterStep(self.steps, fragment, arrived.weights, arrived.not_finite, length)

    # ---- ends, boundaries, newcomers -------------------------------------------------------------

    @torch.no_grad()
    def finish(self) -> None:
        """Put all progress into the shared parameters, and those into the model; collective.

        At the end of training, or before a checkpoint for others: every member's model has the
        same bits afterwards. What is under way is waited for, and fragments that have made local
        steps since are exchanged once more. Training may go on.
        """
        for fragment in self._in_order():
            self._end(fragment)
            self._mix(fragment)
        for fragment in range(len(self._flats)):
            if self.steps > int(self.shared["steps"][1 + fragment]):
                self._begin(fragment)
                self._put_own(fragment)
                self._end(fragment)
                self._mix(fragment)
            self._restart(fragment)

    def _in_order(self) -> list[int]:
        """Return the fragments under way or arrived, in the order in which they began."""
        begun = self.shared["steps"][1:].tolist()
        there = {*self._flights, *self._arrivals}
        return sorted(there, key=lambda fragment: (begun[fragment], fragment))

    def shared_parameters(self) -> dict[str, torch.Tensor]:
        """Return the shared parameters by name, by reference: the same bits on all members.

        For evaluation with ``torch.func.functional_call``, and for programs that compare. In
        float32 or float64, whatever the model's dtype is.
        """
        found: dict[str, torch.Tensor] = {}
        for fragment, (flat, part) in enumerate(zip(self._flats, self.rounds.parts, strict=True)):
            found.update(zip(part, flat.views(self._outer(fragment)), strict=True))
        return {name: found[name] for name in self._parameters}

    @property
    def view(self) -> View | None:
        """Who was there, and who had come in, at the latest boundary; None before the first."""
        return self._boundary.view

    @torch.no_grad()
    def advance(
        self, state: Mapping[str, torch.Tensor] | None = None, *, each_round: bool = False
    ) -> View:
        """Pass a step boundary, and bring newcomers up to date; collective.

        All members call it after the same local step; a newcomer calls it before its first step,
        and takes over the shared parameters, the outer optimiser's state and the place in the
        round; its progress is zero, and so is what it owes. What is under way is waited for, and
        mixed in when its time has come. Of a group whose members never change it does nothing.

        Parameters
        ----------
        state : mapping of str to torch.Tensor, optional
            More that newcomers take over, written in place; the same names on all members, and the
            same tensors at every call.
        each_round : bool
            From now on `step` does the same at the end of each round, where least is under way:
            between what ends and what begins there. So an exchange that has a whole round keeps it.

        Returns
        -------
        View
            Who is there, and who has come in; later ones are `view`.

        Raises
        ------
        ConfigError
            At a newcomer whose trainer is not as the others'.
        """
        if each_round:
            self._boundary.state = state or {}
        return self._pass_boundary(state or {})

    def _pass_boundary(self, state: Mapping[str, torch.Tensor], inside: bool = False) -> View:
        if self._seat.group is not None or self.ledger is not None:
            # Of a loss that is an error the view tells; the progress goes into the next exchange.
            with contextlib.suppress(PeerLost):
                self._settle()
        boundary = self._boundary
        if boundary.advance(self.shared, state, self._alike(), self.settings(), inside):
            self._take_over()
            events = list(self.rounds.after(self._place)) if boundary.is_inside else []
            for event in itertools.dropwhile(lambda event: event.act != "begin", events):
                self._do(event)
        assert boundary.view is not None
        return boundary.view

    def _settle(self) -> None:
        """Wait for what is under way; the table says when it is mixed in."""
        failed: PeerLost | None = None
        for fragment in self._in_order():
            try:
                self._end(fragment)
            except PeerLost as error:
                failed = error
        shared.keep(self.shared, self._arrivals)
        if failed is not None:
            raise failed

    def _take_over(self) -> None:
        self._own["samples"].zero_()
        self._flights.clear()
        for fragment in range(len(self._flats)):
            self._restart(fragment)
        self._arrivals = shared.kept(self.shared)

    # ---- checkpoints -----------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""
        return {
            "method": self.method,
            "inner_steps": self.rounds.inner_steps,
            "fragments": len(self.rounds.parts),
            "delay": self.rounds.delay,
            "outer": type(self.outer).__name__,
            "ledger": self.ledger and repr(self.ledger),
        }

    def _outer(self, fragment: int) -> torch.Tensor:
        return self.shared[f"outer/{fragment}"]

    def _state(self, fragment: int) -> dict[str, torch.Tensor]:
        names = self.outer.state_of(self._flats[fragment].count)
        return {name: self.shared[f"{name}/{fragment}"] for name in names}
