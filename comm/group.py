"""Group: collectives over a fixed set of ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, cast

from holdfast import _core, _process
from holdfast.comm.arrays import Buffer, buffer, split_blocks
from holdfast.comm.work import Work
from holdfast.errors import ConfigError, HoldfastError

_OPS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


class Group:
    """The ranks of one view and the collectives over them. Made by :func:`holdfast.init`.

    Arrays are NumPy arrays or CPU torch tensors of any shape; every rank passes the same number of
    elements and the same dtype, unless said otherwise. With ``async_op=True`` a method returns a
    :class:`Work` at once; the arrays must stay untouched until it has ended.

    Parameters
    ----------
    native : _core.Communicator
        The native communicator.
    """

    def __init__(self, native: _core.Communicator) -> None:
        self._native = native
        _process.add(self)

    @property
    def rank(self) -> int:
        """This process's number, 0 to size - 1."""
        return self._native.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._native.size

    @property
    def epoch(self) -> int:
        """Number of the view."""
        return self._native.epoch

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._native.name

    @property
    def transports(self) -> tuple[str, ...]:
        """What carries data to each rank: ``"shm"``, ``"tcp"``, or ``"self"``."""
        return tuple(self._native.transports)

    def all_reduce(
        self, array: Any, op: str = "sum", async_op: bool = False, timeout: float | None = None
    ) -> Work | None:
        """Reduce over all ranks, in place; every rank gets the same bits.

        Parameters
        ----------
        array : array
            Any shape; replaced by the result.
        op : str
            sum, avg, product, min, max, band, bor, bxor.
        async_op : bool
            Return a :class:`Work` at once.
        timeout : float, optional
            Seconds; default: the group's.

        Returns
        -------
        Work or None
            With ``async_op``.

        Raises
        ------
        PeerLost, Timeout, ProtocolError
            When the op failed, on every rank.
        ConfigError, Unsupported
            For arguments that cannot be used.
        """
        b = buffer(array, "all_reduce: array", written=True)
        call = self._call("all_reduce", b, [b.block], [b.block], op=op, timeout=timeout)
        return self._go(call, [b], [b], async_op)

    def reduce(
        self,
        array: Any,
        root: int = 0,
        op: str = "sum",
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Reduce over all ranks to the root, in place there; other ranks' arrays stay.

        Parameters and errors as in :meth:`all_reduce`; `root` is the rank that gets the result.
        """
        b = buffer(array, "reduce: array", written=self.rank == root)
        output = [b.block] if self.rank == root else []
        call = self._call("reduce", b, [b.block], output, op=op, root=root, timeout=timeout)
        return self._go(call, [b], [b] if output else [], async_op)

    def broadcast(
        self, array: Any, root: int = 0, async_op: bool = False, timeout: float | None = None
    ) -> Work | None:
        """Copy the root's array to every rank, in place.

        Parameters and errors as in :meth:`all_reduce`; `root` is the rank that has the data.
        """
        b = buffer(array, "broadcast: array", written=self.rank != root)
        call = self._call("broadcast", b, [b.block], [b.block], root=root, timeout=timeout)
        return self._go(call, [b], [b] if self.rank != root else [], async_op)

    def reduce_scatter(
        self,
        output: Any,
        input: Any,
        op: str = "sum",
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Reduce over all ranks; rank r gets block r.

        Parameters
        ----------
        output : array
            Block r of the result.
        input : array or sequence of arrays
            `size` blocks, as one array (of `size` times the output's elements) or as a sequence.
        op, async_op, timeout
            As in :meth:`all_reduce`.
        """
        out = buffer(output, "reduce_scatter: output", written=True)
        ins, blocks = self._blocks("reduce_scatter: input", input, out, written=False)
        call = self._call("reduce_scatter", out, blocks, [out.block], op=op, timeout=timeout)
        return self._go(call, [out, *ins], [out], async_op)

    def all_gather(
        self, output: Any, input: Any, async_op: bool = False, timeout: float | None = None
    ) -> Work | None:
        """Give every rank's input to every rank.

        Parameters
        ----------
        output : array or sequence of arrays
            `size` blocks; block r becomes rank r's input. Blocks of a sequence may differ in size.
        input : array
            This rank's block.
        async_op, timeout
            As in :meth:`all_reduce`.
        """
        own = buffer(input, "all_gather: input")
        outs, blocks = self._blocks("all_gather: output", output, own, written=True)
        call = self._call("all_gather", own, [own.block], blocks, timeout=timeout)
        return self._go(call, [own, *outs], outs, async_op)

    def all_to_all(
        self,
        output: Any,
        input: Any,
        output_splits: Sequence[int] | None = None,
        input_splits: Sequence[int] | None = None,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Send block d of the input to rank d; block s of the output comes from rank s.

        Parameters
        ----------
        output, input : array
            Distinct memory. Without splits, `size` equal blocks each.
        output_splits, input_splits : sequence of int, optional
            Elements of each block.
        async_op, timeout
            As in :meth:`all_reduce`.
        """
        source = buffer(input, "all_to_all: input")
        target = buffer(output, "all_to_all: output", written=True)
        _same_dtype("all_to_all", source, target)
        give = self._splits("input_splits", source, input_splits)
        take = self._splits("output_splits", target, output_splits)
        call = self._call("all_to_all", source, give, take, timeout=timeout)
        return self._go(call, [source, target], [target], async_op)

    def gather(
        self,
        output: Any,
        input: Any,
        root: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Give every rank's input to the root.

        Parameters
        ----------
        output : array, sequence of arrays, or None
            At the root `size` blocks, elsewhere None.
        input : array
            This rank's block.
        root, async_op, timeout
            As in :meth:`reduce`.
        """
        own = buffer(input, "gather: input")
        outs: list[Buffer] = []
        blocks: list[tuple[int, int]] = []
        if self.rank == root:
            outs, blocks = self._blocks("gather: output", output, own, written=True)
        call = self._call("gather", own, [own.block], blocks, root=root, timeout=timeout)
        return self._go(call, [own, *outs], outs, async_op)

    def scatter(
        self,
        output: Any,
        input: Any,
        root: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Give block r of the root's input to rank r.

        Parameters
        ----------
        output : array
            This rank's block.
        input : array, sequence of arrays, or None
            At the root `size` blocks, elsewhere None.
        root, async_op, timeout
            As in :meth:`reduce`.
        """
        own = buffer(output, "scatter: output", written=True)
        ins: list[Buffer] = []
        blocks: list[tuple[int, int]] = []
        if self.rank == root:
            ins, blocks = self._blocks("scatter: input", input, own, written=False)
        call = self._call("scatter", own, blocks, [own.block], root=root, timeout=timeout)
        return self._go(call, [own, *ins], [own], async_op)

    def barrier(self, async_op: bool = False, timeout: float | None = None) -> Work | None:
        """Wait until every rank has come here."""
        call = _core.Call("barrier", "u8", "sum", [], [], timeout_s=timeout or 0.0)
        return self._go(call, [], [], async_op)

    def send(
        self,
        array: Any,
        peer: int,
        tag: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Send to one rank; messages of one tag arrive in the order they were sent."""
        b = buffer(array, "send: array")
        call = self._call("send", b, [b.block], [], peer=peer, tag=tag, timeout=timeout)
        return self._go(call, [b], [], async_op)

    def recv(
        self,
        array: Any,
        peer: int,
        tag: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Receive from one rank, into the array."""
        b = buffer(array, "recv: array", written=True)
        call = self._call("recv", b, [], [b.block], peer=peer, tag=tag, timeout=timeout)
        return self._go(call, [b], [b], async_op)

    def abort(self, reason: str = "aborted by the user") -> None:
        """End all running and later ops, here and (with PeerLost) on the other ranks."""
        self._native.abort(reason)

    def close(self, timeout: float = 5.0) -> None:
        """Leave the group after this rank's running ops have ended.

        Parameters
        ----------
        timeout : float
            Seconds to wait for them.

        Raises
        ------
        Timeout
            When ops were still running; they are aborted.
        """
        self._native.close(timeout)

    def __enter__(self) -> Group:
        """Return the group."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the group; at once when an exception passes."""
        if error is None:
            self.close()
        else:
            self._native.abort(f"{type(error).__name__}: {error}")
            self._leave()

    def __repr__(self) -> str:
        """Name, rank and size."""
        return f"Group(name={self.name!r}, rank={self.rank}, size={self.size}, epoch={self.epoch})"

    def _leave(self) -> None:
        with contextlib.suppress(HoldfastError):
            self._native.close(0.0)

    def _disown(self) -> None:
        self._native = cast("_core.Communicator", _Disowned())

    def _call(
        self,
        collective: str,
        like: Buffer,
        input: list[tuple[int, int]],
        output: list[tuple[int, int]],
        *,
        op: str = "sum",
        root: int = 0,
        peer: int = 0,
        tag: int = 0,
        timeout: float | None = None,
    ) -> _core.Call:
        if op not in _OPS:
            raise ConfigError(f"{collective}: op = {op!r}; accepted: {', '.join(_OPS)}")
        if not 0 <= tag < 2**31:
            raise ConfigError(f"{collective}: tag = {tag}; accepted: 0 to 2147483647")
        return _core.Call(
            collective, like.dtype, op, input, output, root, peer, tag, timeout or 0.0
        )

    def _go(
        self, call: _core.Call, keep: list[Buffer], outputs: list[Buffer], async_op: bool
    ) -> Work | None:
        if async_op:
            return Work(self._native.start(call, keep), outputs)
        self._native.run(call)
        for output in outputs:
            output.store()
        return None

    def _blocks(
        self, what: str, arrays: Any, own: Buffer, *, written: bool
    ) -> tuple[list[Buffer], list[tuple[int, int]]]:
        """One block per rank, from a sequence of arrays or from one array cut equally."""
        if isinstance(arrays, list | tuple):
            if len(arrays) != self.size:
                raise ConfigError(f"{what}: {len(arrays)} arrays for {self.size} ranks")
            many = [buffer(a, f"{what}[{i}]", written=written) for i, a in enumerate(arrays)]
            for b in many:
                _same_dtype(what, own, b)
            return many, [b.block for b in many]
        whole = buffer(arrays, what, written=written)
        _same_dtype(what, own, whole)
        if whole.count != own.count * self.size:
            raise ConfigError(
                f"{what}: {whole.count} elements; accepted: {self.size} blocks of {own.count}"
            )
        return [whole], split_blocks(whole, [own.count] * self.size)

    def _splits(
        self, what: str, whole: Buffer, splits: Sequence[int] | None
    ) -> list[tuple[int, int]]:
        if splits is None:
            if whole.count % self.size != 0:
                raise ConfigError(
                    f"all_to_all: {whole.count} elements are not {self.size} equal blocks; "
                    f"pass {what}"
                )
            splits = [whole.count // self.size] * self.size
        fits = len(splits) == self.size and min(splits) >= 0 and sum(splits) == whole.count
        if not fits:
            raise ConfigError(
                f"all_to_all: {what} = {list(splits)}; accepted: {self.size} numbers >= 0 that "
                f"add up to {whole.count}"
            )
        return split_blocks(whole, list(splits))


def _same_dtype(what: str, one: Buffer, other: Buffer) -> None:
    if one.dtype != other.dtype:
        raise ConfigError(f"{what}: dtypes {one.dtype} and {other.dtype} differ")


class _Disowned:
    """Stands for the native group in a forked child, where every use is an error."""

    def __getattr__(self, name: str) -> object:
        _process.check()
        raise AttributeError(name)
