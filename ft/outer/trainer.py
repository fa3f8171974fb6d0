"""What all outer-step trainers share: local steps, step boundaries and checkpoints.

What is done with a fragment is in `walk`, when it is done in `rounds`, and how much a member does
in `turn`. Why: docs/decisions/0175-rounds-are-data.md
"""

from __future__ import annotations

import contextlib
import itertools
import math
import weakref
from collections.abc import Mapping
from typing import Any

import torch

from holdfast.compress.codec import Codec
from holdfast.compress.options import require
from holdfast.compress.reducer import View
from holdfast.errors import ConfigError, HoldfastError, PeerLost
from holdfast.ft.outer import seat, shared
from holdfast.ft.outer.boundary import Boundary
from holdfast.ft.outer.donor import Donor, InnerState
from holdfast.ft.outer.flat import Model, digests
from holdfast.ft.outer.late import Meeting
from holdfast.ft.outer.optimizers import OuterOptimizer
from holdfast.ft.outer.pace import Pace
from holdfast.ft.outer.rounds import Event, Rounds
from holdfast.ft.outer.site import refuse_in_site
from holdfast.ft.outer.stand_in import StandIn, StoodIn
from holdfast.ft.outer.turn import Turn


class Trainer(StoodIn):
    """Local steps of an inner optimiser, and outer steps over the members of a group.

    Not made by itself; a method is a subclass. All members make theirs alike, from the same
    parameters, and call the same methods in the same order.

    Parameters
    ----------
    model : torch.nn.Module or mapping of str to torch.Tensor
        Its parameters that require a gradient are trained and shared; buffers stay local.
    inner : torch.optim.Optimizer
        Of these parameters. `step` calls it; gradients, and their zeroing, are the caller's.
    group : None, ProcessGroup, Group, Exchange or Site
        None: torch's default group. Of any backend; members may come and go with ``holdfast``. A
        `Site` where the model is sharded over several ranks.
    rounds : Rounds
        When what is done.
    outer : OuterOptimizer
        What becomes of the mean progress.
    codec : Codec or str, optional
        What progress travels as, or a list to choose from, as ``"auto(bf16,int8,int4)"``.
    global_batch : int, optional
        Samples of a round over all members, which stay as many when members come and go. It is the
        batch of an outer step, the one that all members do together: that of a local step is the
        inner optimiser's, and its rate is set for it. Each round's samples are dealt to the members
        that the boundary before it has agreed on, and `next_batch` says how many a local step is
        to be of; a member that has more of them does more local steps. None: every member does
        `inner_steps` local steps in a round, of any number of samples.
    pace : bool
        Whether a slow member has less to do in a round, by its speed in the one before, so that it
        is not waited for: of `global_batch` a smaller part, else fewer local steps than
        `inner_steps`, which the fastest does. Its weight is smaller by as much.
    inner_state : str
        What the inner optimiser of a newcomer begins with: ``"fresh"``, nothing, or ``"donor"``,
        the state of the lowest rank that was there before, as it is then. Over Holdfast.
    grace_s : float, optional
        Seconds by which a member's computation may be later than that of the fastest one, by its
        speed in the round before. Then a thread of its own process stands in for it: it counts 0 in
        this exchange, and its progress goes into its next one, discounted by its age. Nothing else
        may go over the group meanwhile. None: late members are waited for.
    """

    def __init__(
        self,
        model: Model,
        inner: torch.optim.Optimizer,
        group: Any,
        rounds: Rounds,
        outer: OuterOptimizer,
        codec: Codec | str | None,
        global_batch: int | None = None,
        pace: bool = False,
        inner_state: InnerState = "fresh",
        grace_s: float | None = None,
    ) -> None:
        stand_in = None if grace_s is None else StandIn(grace_s)
        super().__init__(model, inner, group, rounds, outer, codec, stand_in is not None)
        if self._seat.inside is not None:
            refuse_in_site(
                global_batch=global_batch, pace=pace, inner_state=inner_state, grace_s=grace_s
            )
        seated = self._seat.exchange
        self._pace = Pace(pace, self._flats[0].device, is_told=stand_in is not None)
        self._turn = Turn(
            rounds.inner_steps, global_batch, lambda: seated.members, seated.rank, self._pace
        )
        self._own["turn"] = self._turn.own
        self._boundary = Boundary(self._seat)
        self._donor = Donor(inner_state, self._seat.native_group, inner)
        self._stand_in = stand_in
        if stand_in is not None:
            weakref.finalize(self, stand_in.close)

    # ---- local steps -----------------------------------------------------------------------------

    @property
    def at_boundary(self) -> bool:
        """Whether a round has just ended, or none has begun."""
        return self._turn.is_whole

    def next_batch(self, most: int) -> int:
        """Return how many samples the next local step is to be of, so that `global_batch` holds.

        Parameters
        ----------
        most : int
            Samples that fit in a step; what is returned without `global_batch`.
        """
        return self._turn.next_batch(most)

    @torch.no_grad()
    def step(self, samples: float = 1.0) -> None:
        """Do a local step, and what the table says after it.

        Parameters
        ----------
        samples : float
            That this step's gradient is of: this member's weight in the mean is their sum over the
            round. Members may differ. A site's weight is that of all its ranks; those that compute
            on the same samples, as under tensor parallel, say 0 but for one.

        Raises
        ------
        ConfigError
            At the first step, when the members' models or trainers differ, with their ranks; for
            samples that this member's part of `global_batch` has no room for.
        PeerLost, Timeout
            When an exchange failed: the progress that it had stays in the parameters, and goes into
            the next one.
        """
        fits = math.isfinite(samples) and samples >= 0
        require(fits, "samples", samples, "a number, 0 and more")
        with self._by_member():
            if not self._was_late:
                self._turn.check(samples)
            if self.ledger is not None:
                self.ledger.done(samples)
            if self.steps == 0 and self._turn.is_whole:
                self._refuse_other_models()
            with torch.enable_grad():
                self.inner.step()
            self._own["samples"] += samples
            if self._was_late:
                self._pace.computed(self._turn.units(samples), False)
                self._come_back()
            else:
                self._pass_rows(samples)
            self._expect()

    def _pass_rows(self, samples: float) -> None:
        rows = self._turn.passed(samples, self.steps)
        self._pace.computed(self._turn.units(samples), bool(rows))
        try:
            with self._passing(self.rounds.inner_steps in rows):
                for row in rows:
                    self.shared["steps"][0] += 1
                    self._pass_row(row)
        except HoldfastError:
            self._turn.go_to(self.steps)
            self._meeting = None
            raise
        finally:
            self._pace.goes_on()

    def _refuse_other_models(self) -> None:
        told = digests(self._parameters, self._alike())
        refused: ConfigError | None = None
        try:
            seat.refuse_other_models(self._seat.exchange, told, self._flats[0].device)
        except ConfigError as error:
            refused = error
        if self._seat.inside is not None:
            self._seat.inside.agree(refused, "has other shards than that of another site")
        elif refused is not None:
            raise refused

    def _pass_row(self, row: int) -> None:
        for event in self.rounds.after(row):
            if event.act == "begin" and self._stand_in is not None and self._meeting is None:
                self._meeting = Meeting(self._seat.exchange, self._flats[0].device)
            if self._is_last(event) and self._boundary.state is not None:
                if self._meeting is not None:
                    self._meeting.wait()
                self._pass_boundary(self._boundary.state, inside=True)
            self._do(event)

    def _is_last(self, event: Event) -> bool:
        """Return whether it is the begin of a round's last exchange."""
        return event.act == "begin" and event.step == self.rounds.inner_steps

    def _do(self, event: Event) -> None:
        if self._is_last(event):
            self._pace.begin(self._seat.exchange, self._absence.is_on)
        super()._do(event)

    def _end(self, fragment: int) -> None:
        try:
            super()._end(fragment)
        finally:
            # What is told began with the exchange of the last fragment, and ends with it.
            if fragment == len(self._flats) - 1:
                self._pace.end()

    def _mix(self, fragment: int) -> None:
        super()._mix(fragment)
        if fragment == len(self._flats) - 1:
            self._pace.adopt()

    def _alike(self) -> str:
        """Return what all members must have alike, but for the model."""
        return (
            f"{self.settings()}\n{self._seat.codec}\n{self.outer}\n{self._turn}\n{self._donor.kind}"
            f"\n{self._stand_in is not None}"
        )

    # ---- ends, boundaries, newcomers -------------------------------------------------------------

    @torch.no_grad()
    def finish(self) -> None:
        """Put all progress into the shared parameters, and those into the model; collective.

        At the end of training, or before a checkpoint for others: every member's model has the
        same bits afterwards. What is under way is waited for, and fragments that have made local
        steps since are exchanged once more. Training may go on. With `global_batch` it is called
        between rounds.
        """
        with self._by_hand():
            self._turn.refuse_within("finish()")
            self._wait_for_all()
            for fragment in self._flights.in_order():
                self._end(fragment)
                self._mix(fragment)
            for fragment in range(len(self._flats)):
                if self.steps > int(self.shared["steps"][1 + fragment]):
                    self._begin(fragment)
                    self._put_own(fragment)
                    self._end(fragment)
                    self._mix(fragment)
                self._restart(fragment)

    def shared_parameters(self) -> dict[str, torch.Tensor]:
        """Return the shared parameters by name, by reference: the same bits on all members.

        For evaluation with ``torch.func.functional_call``, and for programs that compare. In
        float32 or float64, whatever the model's dtype is.
        """
        found = shared.parameters(self.shared, self._flats, self.rounds)
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
            At a newcomer whose trainer is not as the others'; with `global_batch` in the middle of
            a round.
        """
        with self._by_hand():
            self._turn.refuse_within("advance()")
            self._wait_for_all()
            if each_round:
                self._boundary.state = state or {}
            return self._pass_boundary(state or {})

    def _pass_boundary(self, state: Mapping[str, torch.Tensor], inside: bool = False) -> View:
        if self._seat.group is not None or self.ledger is not None:
            # Of a loss that is an error the view tells; the progress goes into the next exchange.
            with contextlib.suppress(PeerLost):
                self._settle()
            self._donor.finish()
        boundary = self._boundary
        came = boundary.advance(self.shared, state, self._alike(), self.settings(), inside)
        assert boundary.view is not None
        self._donor.at(boundary.view)
        self._pace.forget(boundary.view.joined)
        if not self._absence.is_on:
            self._pace.goes_on()
        if came:
            self._is_expected = True
            self._take_over()
            # Inside is in the last row.
            events = self.rounds.after(self.rounds.inner_steps if boundary.is_inside else 0)
            for event in itertools.dropwhile(lambda event: event.act != "begin", events):
                self._do(event)
        return boundary.view

    def _take_over(self) -> None:
        self._own["samples"].zero_()
        self._absence.forget()
        self._turn.go_to(self.steps)
        for fragment in range(len(self._flats)):
            self._restart(fragment)
        self._flights.take_over()

    # ---- checkpoints -----------------------------------------------------------------------------

    def _deal_anew(self) -> None:
        self._turn.deal_anew(self.steps)

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
