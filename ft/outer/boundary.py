"""Step boundaries of a trainer: who is there, and what who has come in takes over."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch

from holdfast.comm.outcome import View
from holdfast.errors import PeerLost
from holdfast.ft.data.sampler import DataLedger
from holdfast.ft.outer import checkpoint
from holdfast.ft.outer.flat import digest
from holdfast.ft.outer.seat import Seat

Tensors = Mapping[str, torch.Tensor]


class Boundary:
    """The boundaries of one member.

    Parameters
    ----------
    seat : Seat
        Where it sits.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._fresh = True
        # Of what all members have alike; a newcomer's is overwritten by the others'.
        self._kind = torch.zeros(1, dtype=torch.int64)
        # 1 where the members are inside a local step, and have not done what follows it.
        self._inside = torch.zeros(1, dtype=torch.int64)
        self.view: View | None = None
        """The latest; None before the first."""
        self.state: Tensors | None = None
        """What is shared besides at the boundary of each round; None: rounds have none."""
        self.ledger: DataLedger | None = None
        """What leases samples at boundaries."""

    @property
    def is_inside(self) -> bool:
        """Whether the members were inside a local step at the latest boundary."""
        return bool(self._inside)

    def advance(
        self,
        shared: Tensors,
        state: Tensors,
        alike: str,
        settings: checkpoint.Settings,
        inside: bool,
    ) -> bool:
        """Pass one, and return whether this member has come in at it.

        Parameters
        ----------
        shared, state : mapping of str to torch.Tensor
            What newcomers take over, of the trainer and of the caller.
        alike : str
            What all members must have alike.
        settings : mapping
            The trainer's, to be told.
        inside : bool
            Whether this member is inside a local step.

        Raises
        ------
        ConfigError
            At a newcomer whose trainer is not as the others'.
        """
        self._inside.fill_(inside)
        if self._fresh:
            self._kind.fill_(digest(alike))
        whole = {f"trainer/{name}": tensor for name, tensor in shared.items()}
        whole |= {"trainer/kind": self._kind, "trainer/inside": self._inside, **state}
        view = self._seat.advance(whole, self._fresh)
        self._fresh = False
        if self._seat.inside is not None:
            again = functools.partial(self._seat.advance, whole, False)
            view = self._seat.inside.whole(view, self._seat.exchange, again)
        self.view = view
        self._seat.exchange.regroup(self.view.ranks)
        has_joined = self._seat.exchange.rank in self.view.joined
        if has_joined:
            checkpoint.refuse_kind(int(self._kind) == digest(alike), settings)
        if self.ledger is not None:
            turn = int(shared["steps"][0]) // settings["inner_steps"]
            # A newcomer has the others' ledger by now, so all do the same.
            known = {*self.ledger.members, *self.view.joined} if self.ledger.members else None
            there = self._present() if known is None else known
            self.ledger.boundary(turn, sorted(there), self.view.joined)
        return has_joined

    def _present(self) -> set[int]:
        """Return who is there: the same on all members, while a view hears of a death at times."""
        exchange = self._seat.exchange
        while True:
            there = torch.zeros(exchange.size, dtype=torch.int64)
            there[exchange.rank] = 1
            try:
                exchange.sum(there).wait()
            except PeerLost:
                # An error on all alike; each is a loss, of which there are as many as members.
                continue
            return {rank for rank, is_there in enumerate(there.tolist()) if is_there}
