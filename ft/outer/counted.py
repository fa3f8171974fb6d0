"""A trainer that tells a ledger which samples have been trained on, and which a mean has.

What a step is of goes to `DataLedger.done`, what a mean has to `DataLedger.arrived`. The ledger's
table is one more of the tensors that are shared, so newcomers and checkpoints have it.
Why: docs/decisions/0180-data-is-leased.md
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holdfast.compress.options import require
from holdfast.ft.data.sampler import DataLedger
from holdfast.ft.outer.boundary import Boundary
from holdfast.ft.outer.flat import Flat
from holdfast.ft.outer.mean import Mean
from holdfast.ft.outer.seat import Seat
from holdfast.ft.outer.site import refuse_in_site


class Counted:
    """What a trainer has for its ledger."""

    shared: dict[str, torch.Tensor]
    _own: dict[str, torch.Tensor]
    _boundary: Boundary
    _flats: Sequence[Flat]
    _seat: Seat

    @property
    def ledger(self) -> DataLedger | None:
        """Where samples are counted; None without one."""
        return self._boundary.ledger

    def attach(self, ledger: DataLedger) -> None:
        """Count samples in a ledger; on all members, before `advance` and before the first step.

        From then on `samples` of `step` is how many samples, in the order in which the ledger gave
        them, the step is of.

        Parameters
        ----------
        ledger : DataLedger
            Made alike on all members; its state is part of this trainer's.

        Raises
        ------
        ConfigError
            After the first step, and with a `Site`.
        """
        steps = int(self.shared["steps"][0])
        require(steps == 0, "attach() after steps", steps, "0: before the first step, and a load")
        if self._seat.inside is not None:
            refuse_in_site(ledger=ledger)
        ledger.seat(self._seat.exchange.rank, len(self._flats))
        self._boundary.ledger = ledger
        self.shared["ledger"], self._own["trained"] = ledger.table, ledger.trained

    def _counted(self, fragment: int, arrived: Mean) -> None:
        if self.ledger is not None:
            self.ledger.arrived(fragment, arrived.counts, arrived.not_finite)
