"""An exchange that stands in front of another one, and passes on what it does not change."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from holdfast.compress.exchange import Exchange, Pending


class Forwarding:
    """An exchange over an exchange; what changes an op overrides it.

    Parameters
    ----------
    inner : Exchange
        What carries the bytes.
    """

    def __init__(self, inner: Exchange) -> None:
        self.inner = inner

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return self.inner.rank

    @property
    def size(self) -> int:
        """Ranks of the group, vacant ones included."""
        return self.inner.size

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that have a member."""
        return self.inner.members

    def regroup(self, members: Sequence[int]) -> None:
        """Take note of who is there."""
        self.inner.regroup(members)

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place; exchanges of others may not know weights."""
        if weight is None:
            return self.inner.mean(tensor, codec)
        return self.inner.mean(tensor, codec, weight)

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up in place."""
        return self.inner.sum(tensor)

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Exchange rows."""
        return self.inner.swap(received, sent)

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Collect rows."""
        return self.inner.gather(rows, own)
