"""From bytes of images into local tensors: what a plan has read goes where it belongs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch

from holdfast.errors import ProtocolError
from holdfast.ft.state.layout.dtypes import ITEM_BYTES
from holdfast.ft.state.layout.local import Local
from holdfast.ft.state.layout.plan import Index, Piece, Reading, Wanted, plan


def wanted(local: Local) -> Wanted:
    """Return what a local tensor needs.

    Parameters
    ----------
    local : Local
        The tensor, which is written.
    """
    return Wanted(local.name, local.dtype, local.shape, local.boxes)


class Fill:
    """Local tensors that are being filled.

    Parameters
    ----------
    locals_ : sequence of Local
        What is written, in place.
    saved : Index
        All heads.
    prefer : int
        The rank whose image is nearest.

    Raises
    ------
    ConfigError
        For another model's state; nothing is written then.
    ProtocolError
        When images lack elements of a tensor.
    """

    def __init__(self, locals_: Sequence[Local], saved: Index, prefer: int = -1) -> None:
        self._locals = locals_
        self._readings = plan(saved, [wanted(local) for local in locals_], prefer)
        self._left = {reading.rank for reading in self._readings}

    @property
    def readings(self) -> list[Reading]:
        """What is needed of whose body."""
        return self._readings

    @property
    def left(self) -> list[int]:
        """Ranks of whose bodies nothing has come yet."""
        return sorted(self._left)

    @torch.no_grad()
    def put(self, rank: int, data: bytes | bytearray | memoryview | np.ndarray) -> None:
        """Write what was read of a rank's body.

        Parameters
        ----------
        rank : int
            Whose.
        data : bytes-like
            The reading's ranges, one after the other.

        Raises
        ------
        ProtocolError
            For more or fewer bytes.
        """
        reading = next(one for one in self._readings if one.rank == rank)
        raw = np.frombuffer(data, dtype=np.uint8)
        if raw.nbytes != reading.nbytes:
            raise ProtocolError(
                f"of rank {rank}'s body {raw.nbytes} bytes came; accepted: {reading.nbytes}"
            )
        for piece in reading.pieces:
            self._write(piece, raw[piece.at : piece.at + piece.nbytes])
        self._left.discard(rank)

    @torch.no_grad()
    def put_body(self, rank: int, body: bytes | bytearray | memoryview) -> None:
        """Write what is needed of a rank's body, which is at hand as a whole.

        Parameters
        ----------
        rank : int
            Whose.
        body : bytes-like
            All of it.

        Raises
        ------
        ProtocolError
            It is too short.
        """
        reading = next(one for one in self._readings if one.rank == rank)
        raw = np.frombuffer(body, dtype=np.uint8)
        ends = reading.starts + reading.lengths
        if len(ends) and raw.nbytes < int(ends.max()):
            raise ProtocolError(
                f"rank {rank}'s body has {raw.nbytes} bytes; accepted: {int(ends.max())} and more"
            )
        # Where ranges begin among those one after the other, in which pieces count.
        begins = np.cumsum(reading.lengths) - reading.lengths
        for piece in reading.pieces:
            first, last = np.searchsorted(begins, [piece.at, piece.at + piece.nbytes - 1], "right")
            parts = []
            for number in range(int(first) - 1, int(last)):
                start, begin = int(reading.starts[number]), int(begins[number])
                upto = min(piece.at + piece.nbytes, begin + int(reading.lengths[number]))
                parts.append(raw[start + max(piece.at - begin, 0) : start + upto - begin])
            self._write(piece, parts[0] if len(parts) == 1 else np.concatenate(parts))
        self._left.discard(rank)

    def _write(self, piece: Piece, raw: np.ndarray) -> None:
        local = self._locals[piece.wanted]
        view = local.views[piece.box]
        inside = piece.region.inside(local.boxes[piece.box])
        for axis, (start, length) in enumerate(zip(inside.offset, inside.size, strict=True)):
            view = view.narrow(axis, start, length)
        dtype = getattr(torch, local.dtype)
        if raw.ctypes.data % ITEM_BYTES[local.dtype]:
            raw = raw.copy()
        elif not raw.flags.writeable:
            # Torch warns of memory that it must not write. It is only read, while `data` lives.
            there = (ctypes.c_ubyte * raw.nbytes).from_address(raw.ctypes.data)
            raw = np.frombuffer(memoryview(there), dtype=np.uint8)
        flat = torch.from_numpy(raw).view(dtype)
        view.copy_(flat.as_strided(piece.region.size, piece.strides))
