"""What compression saves: every op of an exchange is counted, in the bytes that this rank sends.

An average of n bytes over p ranks costs each rank at least 2 (p - 1) / p n bytes (Patarasuk, Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009); a row for each
rank, or a row that everybody gets, costs p - 1 rows. Both sides of the comparison go by that.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from holdfast import _layer_metrics
from holdfast.compress.exchange import Exchange, Pending
from holdfast.compress.forwarding import Forwarding


def method_of(thing: object) -> str:
    """Return the name under which a method is counted: this package's class that it is.

    Parameters
    ----------
    thing : object
        A reducer or an optimiser, of a subclass perhaps.
    """
    own = (kind.__name__ for kind in type(thing).__mro__ if kind.__module__.startswith(__package__))
    return next(own, "other")


class CountedExchange(Forwarding):
    """An exchange whose ops are counted under the name of a method.

    Parameters
    ----------
    exchange : Exchange
        What carries the bytes.
    method : str
        As of `method_of`.
    """

    def __init__(self, exchange: Exchange, method: str) -> None:
        super().__init__(exchange)
        self._method = method

    def asked(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count tensors whose average is wanted, as if they were sent as they are."""
        if count := sum(map(_bytes, tensors)):
            _layer_metrics.saving(self._method, self._averaged(count), 0)

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place; counted before the codec."""
        self._sends(self._averaged(_bytes(tensor)))
        return super().mean(tensor, codec, weight)

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up in place."""
        self._sends(self._averaged(_bytes(tensor)))
        return super().sum(tensor)

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Exchange rows."""
        rows = max(1, sent.shape[0])
        self._sends(_bytes(sent) // rows * (len(self.members) - 1))
        return super().swap(received, sent)

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Collect rows."""
        self._sends(_bytes(own) * (len(self.members) - 1))
        return super().gather(rows, own)

    def _sends(self, count: int) -> None:
        _layer_metrics.saving(self._method, 0, count)

    def _averaged(self, count: int) -> int:
        members = len(self.members)
        return 2 * (members - 1) * count // members


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
