"""An average with a codec over an exchange that has none: frames are gathered, and read by all.

For backends that know no codecs, such as gloo. Every rank sends its frame to every other, in one
op, and adds up what it decodes in the order of ranks, so all have the same bits. That is p - 1
frames to a member: fewer bytes than a plain all_reduce while the codec saves more than p / 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from holdfast import _core
from holdfast.compress.codec import is_lossless
from holdfast.compress.exchange import Pending
from holdfast.compress.forwarding import Forwarding
from holdfast.compress.weighted_mean import checked_weight

# One byte in front of a frame says that somebody has sent it: the rows of ranks that are away are
# zeros, and so may a frame be. The weight follows, as float64.
_MARK = 1
_HEAD = _MARK + 8


class CodedExchange(Forwarding):
    """An exchange whose `mean` takes codecs.

    Parameters
    ----------
    inner : Exchange
        What carries the bytes.
    """

    def mean(
        self, tensor: torch.Tensor, codec: str | None = None, weight: float | None = None
    ) -> Pending:
        """Average in place; with a lossy codec by frames, in float32."""
        # A lossless frame's length is known after it is made, and a row's before.
        if codec is None or is_lossless(codec):
            return self.inner.mean(tensor, None, weight)
        counts = checked_weight(weight)
        if counts == 0:
            tensor.zero_()
        values = tensor.detach().to("cpu", torch.float32).numpy()
        frame = torch.from_numpy(np.asarray(_core.encode(codec, values)))
        share = torch.tensor([1.0 if counts is None else counts], dtype=torch.float64)
        mark = torch.ones(_MARK, dtype=torch.uint8)
        own = torch.cat([mark, share.view(torch.uint8), frame]).to(tensor.device)
        rows = torch.zeros(self.size, own.numel(), dtype=torch.uint8, device=tensor.device)
        return _Frames(self.inner.gather(rows, own), rows, own, codec, tensor)


@dataclass(frozen=True, slots=True)
class _Frames:
    """Frames under way."""

    pending: Pending
    rows: torch.Tensor
    own: torch.Tensor  # until it has been sent
    codec: str
    tensor: torch.Tensor

    def wait(self) -> None:
        self.pending.wait()
        total = torch.zeros(self.tensor.numel(), dtype=torch.float32)
        count = 0.0
        for row in self.rows.cpu():
            if row[0]:
                share = float(row[_MARK:_HEAD].clone().view(torch.float64))
                values = _core.decode(self.codec, row[_HEAD:].numpy(), total.numel())
                total.add_(torch.from_numpy(values), alpha=share)
                count += share
        self.tensor.copy_(total.div_(count or 1.0).view(self.tensor.shape))
