"""The exchange over a ``holdfast.Group``, an elastic one, too, without torch.distributed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from holdfast.compress.exchange import LOST_ROWS, Pending
from holdfast.compress.options import require
from holdfast.errors import Unsupported


class GroupExchange:
    """Collectives of a ``holdfast.Group``.

    Parameters
    ----------
    group : holdfast.Group
        Of `holdfast.init` or `holdfast.join`. Until `regroup` is called, by ``on_view`` of what
        uses this exchange, all of its ranks count as present.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self._members: tuple[int, ...] | None = None
        taken = inspect.signature(group.all_reduce).parameters
        self._has_codecs = "codec" in taken
        self._has_weights = "weight" in taken

    @property
    def group(self) -> Any:
        """The group."""
        return self._group

    @property
    def rank(self) -> int:
        """This process's number in the group."""
        return int(self._group.rank)

    @property
    def size(self) -> int:
        """Ranks of the group, vacant ones included."""
        return int(self._group.size)

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks that have a member: all, until `regroup` says otherwise."""
        return tuple(range(self.size)) if self._members is None else self._members

    def regroup(self, members: Sequence[int]) -> None:
        """Take note of who is there.

        Parameters
        ----------
        members : sequence of int
            Their ranks, as ``group.advance().ranks`` has them.

        Raises
        ------
        ConfigError
            When this rank is not among them.
        """
        ranks = tuple(sorted(set(members)))
        require(self.rank in ranks, "members", ranks, f"this rank ({self.rank}) among them")
        self._members = ranks

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place over the ranks that are in it, by their weights if they give any.

        Raises
        ------
        Unsupported
            With a codec or a weight, where the group has none.
        """
        extra: dict[str, Any] = {}
        for name, value, known in (
            ("codec", codec, self._has_codecs),
            ("weight", weight, self._has_weights),
        ):
            if value is None:
                continue
            if not known:
                raise Unsupported(f"{name} = {value!r}: this group has no {name}s; leave it out")
            extra[name] = value
        return self._begun(self._group.all_reduce(tensor, op="avg", async_op=True, **extra))

    def sum(self, tensor: torch.Tensor) -> Pending:
        """Add up in place."""
        return self._begun(self._group.all_reduce(tensor, op="sum", async_op=True))

    def swap(self, received: torch.Tensor, sent: torch.Tensor) -> Pending:
        """Exchange rows."""
        return self._begun(self._group.all_to_all(received, sent, async_op=True, on_hole=LOST_ROWS))

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Pending:
        """Collect rows."""
        return self._begun(self._group.all_gather(rows, own, async_op=True, on_hole=LOST_ROWS))

    @staticmethod
    def _begun(work: Any) -> Pending:
        pending: Pending = work
        return pending
