"""Requests: a group's arguments, checked and cut into the blocks that a native call takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast import _core
from holdfast.comm.arrays import Buffer, Site, buffer
from holdfast.compress.codec import Codec, codec_text
from holdfast.errors import ConfigError
from holdfast.options import HOLES

OPS = tuple(_core.reduce_ops())
# The next one is for messages of the group itself.
_LARGEST_TAG = 2**31 - 2
HIGHEST_PRIORITY = 2**31 - 1
# As the peer of a receive: whose message comes first.
ANY_SOURCE = -1

# Where blocks of arrays with gaps are said to lie (native/device_comm/virtual_blocks.h).
_STAND_IN = 1 << 63
_STAND_IN_BYTES = 1 << 48

Block = tuple[int, int]


@dataclass(slots=True)
class Request:
    """One op of one group, on its way to the runtime.

    Parameters
    ----------
    op : str
        Name of the collective.
    group : str
        Name, rank and size of the group, for errors.
    size : int
        Ranks of the group.
    """

    op: str
    group: str
    size: int
    buffers: list[Buffer] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)
    codec: str = ""
    residual: list[int] = field(default_factory=list)
    gaps: list[_core.Gap] = field(default_factory=list)
    weight: float | None = None

    def refuse(self, what: str, accepted: str) -> ConfigError:
        """Return the error that names op, group, rank, what is wrong, and what is accepted."""
        return ConfigError(f"{self.op} of {self.group}: {what}; accepted: {accepted}")

    def array(self, argument: str, array: Any, *, written: bool = False) -> Buffer:
        """Take one array; it stays alive, and is stored back when written, with the op.

        Parameters
        ----------
        argument : str
            Its name in errors.
        array : array
            NumPy array or torch tensor.
        written : bool
            Whether the op writes it.

        Returns
        -------
        Buffer
            Its elements, of the same dtype as the op's other arrays.
        """
        taken = buffer(array, Site(self.op, argument, self.group), written=written)
        if self.buffers and self.buffers[0].dtype != taken.dtype:
            raise self.refuse(
                f"{argument} has {taken}, another array has {self.buffers[0]}", "one dtype"
            )
        self._same_memory(argument, taken)
        self.buffers.append(taken)
        if written:
            self.outputs.append(taken)
        return self._in_one_run(taken, written=written)

    def _in_one_run(self, taken: Buffer, *, written: bool) -> Buffer:
        """Give an array with gaps the address of its stand-in, for the blocks."""
        if taken.strides is None:
            return taken
        at = _STAND_IN | len(self.gaps) * _STAND_IN_BYTES
        self.gaps.append((at, taken.address, taken.item, taken.shape, taken.strides, written))
        return replace(taken, address=at)

    def _same_memory(self, argument: str, taken: Buffer) -> None:
        """Refuse an op between host and device, or between two devices."""
        if not self.buffers or self.buffers[0].device == taken.device:
            return
        places = [
            "the host's memory" if device is None else "a GPU's memory"
            for device in (taken.device, self.buffers[0].device)
        ]
        if places[0] == places[1]:
            places = [f"cuda:{one.device}" for one in (taken, self.buffers[0])]
        raise self.refuse(
            f"{argument} is in {places[0]}, another array in {places[1]}",
            "all arrays of an op in the host's memory, or on one GPU",
        )

    @property
    def on_device(self) -> bool:
        """Whether the arrays are in a GPU's memory."""
        return bool(self.buffers) and self.buffers[0].device is not None

    @property
    def streams(self) -> list[int]:
        """What the op waits for."""
        return list(dict.fromkeys(s for one in self.buffers for s in one.streams))

    def blocks(self, argument: str, arrays: Any, own: Buffer, *, written: bool) -> list[Block]:
        """Take one block per rank: a sequence of arrays, or one array that is cut equally.

        Parameters
        ----------
        argument : str
            Its name in errors.
        arrays : array or sequence of arrays
            `size` arrays, or one of `size` times the elements of `own`.
        own : Buffer
            One block.
        written : bool
            Whether the op writes them.

        Returns
        -------
        list of (int, int)
            Address and number of elements of each block.
        """
        if isinstance(arrays, list | tuple):
            if len(arrays) != self.size:
                raise self.refuse(
                    f"{argument} has {len(arrays)} arrays", f"{self.size}, one a rank"
                )
            many = [
                self.array(f"{argument}[{i}]", one, written=written) for i, one in enumerate(arrays)
            ]
            return [one.block for one in many]
        whole = self.array(argument, arrays, written=written)
        if whole.count != own.count * self.size:
            raise self.refuse(
                f"{argument} has {whole}, one block has {own}",
                f"{self.size} blocks of {own.count} elements, {own.count * self.size} in all",
            )
        return whole.split([own.count] * self.size)

    def splits(self, argument: str, whole: Buffer, splits: Sequence[int] | None) -> list[Block]:
        """Cut an array of all_to_all into one block per rank.

        Parameters
        ----------
        argument : str
            ``"input"`` or ``"output"``.
        whole : Buffer
            The array.
        splits : sequence of int, optional
            Elements of each block; default: equal ones.

        Returns
        -------
        list of (int, int)
            Address and number of elements of each block.
        """
        if splits is None:
            if whole.count % self.size != 0:
                raise self.refuse(
                    f"{argument} has {whole}, which are not {self.size} equal blocks",
                    f"a multiple of {self.size} elements, or {argument}_splits",
                )
            splits = [whole.count // self.size] * self.size
        counts = [int(count) for count in splits]
        if len(counts) != self.size or min(counts) < 0 or sum(counts) != whole.count:
            raise self.refuse(
                f"{argument}_splits = {counts} for {whole}",
                f"{self.size} numbers >= 0 that add up to {whole.count}",
            )
        return whole.split(counts)

    def encode(self, codec: Codec | str | None, residual: Any, input: list[Block]) -> None:
        """Take a codec, and the residual of its error feedback.

        Parameters
        ----------
        codec : Codec, str or None
            None: the data goes as it is.
        residual : array or None
            float32, one to an element of the input; written when the op has ended well.
        input : list of (int, int)
            The input's blocks.
        """
        self.codec = codec_text(codec)
        if residual is None:
            return
        taken = buffer(residual, Site(self.op, "residual", self.group), written=True)
        counts = [count for _, count in input]
        if not self.codec or taken.dtype != "f32" or taken.count != sum(counts):
            raise self.refuse(
                f"residual has {taken}", f"a codec, and float32 of {sum(counts)} elements"
            )
        self._same_memory("residual", taken)
        self.buffers.append(taken)
        self.outputs.append(taken)
        run = self._in_one_run(taken, written=True)
        self.residual = [address for address, _ in run.split(counts)]

    def weigh(self, weight: float | None, op: str) -> None:
        """Take the weight of this rank's input, which goes with an average alone.

        Parameters
        ----------
        weight : float or None
            None: as that of any rank.
        op : str
            How to reduce.
        """
        if weight is None:
            return
        try:
            self.weight = float(weight)
        except (TypeError, ValueError, OverflowError):
            self.weight = math.nan
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise self.refuse(f"weight = {weight!r}", "a finite number, 0 or more; None: no weight")
        if op != "avg":
            raise self.refuse(f"weight = {weight!r} with op = {op!r}", 'op = "avg"')

    def call(
        self,
        input: list[Block],
        output: list[Block],
        *,
        op: str = "sum",
        root: int = 0,
        peer: int = 0,
        tag: int = 0,
        timeout: float | None = None,
        atomic: bool = False,
        equal_blocks: bool = False,
        priority: int = 0,
        on_hole: str | None = None,
    ) -> _core.Call:
        """Return the native call.

        Parameters
        ----------
        input, output : list of (int, int)
            The blocks.
        op : str
            How to reduce.
        root, peer, tag : int
            As the collective needs them.
        timeout : float, optional
            Seconds; default: the group's.
        atomic : bool
            One set of contributors for the whole result.
        equal_blocks : bool
            The blocks of all ranks have one size, and all ranks say so.
        priority : int
            Higher goes first.
        on_hole : str, optional
            "raise" or "zero"; default: the group's.

        Returns
        -------
        _core.Call
            The call.
        """
        if op not in OPS:
            raise self.refuse(f"op = {op!r}", ", ".join(OPS))
        lowest = ANY_SOURCE if self.op == "recv" else 0
        for argument, value, least in (("root", root, 0), ("peer", peer, lowest)):
            if not least <= value < self.size:
                raise self.refuse(f"{argument} = {value}", f"0 to {self.size - 1}")
        if not 0 <= tag <= _LARGEST_TAG:
            raise self.refuse(f"tag = {tag}", f"0 to {_LARGEST_TAG}")
        if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
            raise self.refuse(f"timeout = {timeout}", "seconds, more than 0; None: the group's")
        if not isinstance(priority, int) or abs(priority) > HIGHEST_PRIORITY:
            raise self.refuse(
                f"priority = {priority!r}", f"-{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
            )
        if on_hole is not None and on_hole not in HOLES:
            raise self.refuse(f"on_hole = {on_hole!r}", '"raise", "zero"; None: the group\'s')
        dtype = self.buffers[0].dtype if self.buffers else "u8"
        return _core.Call(
            self.op,
            dtype,
            op,
            input,
            output,
            root,
            peer,
            tag,
            timeout or 0.0,
            atomic,
            equal_blocks=equal_blocks,
            codec=self.codec,
            residual=self.residual,
            priority=priority,
            on_hole=on_hole or "",
            weight=self.weight,
        )
