"""A trainer's state, saved and loaded again: what is in it, `checkpoint` says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from holdfast.ft.outer import checkpoint
from holdfast.ft.outer.walk import Walk


class Saved(Walk):
    """What a trainer has for checkpoints."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what a checkpoint must have alike with the trainer that loads it."""

    @abstractmethod
    def _take_over(self) -> None:
        """Begin from what is shared, as a newcomer does."""

    @abstractmethod
    def _deal_anew(self) -> None:
        """Have a share of the rest of the round as the members are now."""

    @abstractmethod
    def _by_hand(self, is_back: bool = True) -> AbstractContextManager[None]:
        """Keep a stand-in away, and have the member come back where it was late."""

    @torch.no_grad()
    def state_dict(self) -> dict[str, Any]:
        """Return this member's state, by reference; loading it goes on with the same bits.

        The model's and the inner optimiser's are saved beside it, as always. What is under way is
        waited for, and is part of the state until the table says that it is mixed in. ``shared`` is
        the same on all members, ``own`` has this one's part, by rank.
        """
        with self._by_hand():
            self._settle()
            exchange = self._seat.exchange
            return {
                "settings": self.settings(),
                "members": [*exchange.members],
                "shared": dict(self.shared),
                "own": {str(exchange.rank): dict(self._own)},
                "flights": self._flights.state(),
            }

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned on this rank; copies.

        With other members than those that were saved, ``own`` has the parts of all of them: a rank
        that was not among them begins as a newcomer does; what a rank that is not there now has not
        sent is dropped, and what it owes goes to others.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned; the model and the inner optimiser are loaded before it.

        Raises
        ------
        ConfigError
            For the state of another method, of other rounds or of another model, and when the part
            of a rank is missing.
        """
        with self._by_hand(is_back=False):
            self._load(state)

    def _load(self, state: Mapping[str, Any]) -> None:
        checkpoint.refuse_other(state, self.settings())
        self._absence.missed.clear()
        checkpoint.copy("shared", self.shared, state["shared"])
        exchange = self._seat.exchange
        if exchange.rank not in state["members"]:
            self._take_over()
            if self.ledger is not None:
                self.ledger.trained.zero_()
        checkpoint.load_own(state, self._own, exchange.rank, exchange.members)
        if [*state["members"]] != [*exchange.members]:
            self._deal_anew()
        self._flights.load(state["flights"])
        if self.ledger is not None:
            self.ledger.loaded(exchange.members)
