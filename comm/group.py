"""Group: collectives over ranks that may come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import _core, _process
from holdfast.comm.maps import Maps
from holdfast.comm.requests import ANY_SOURCE
from holdfast.comm.work import Work
from holdfast.compress.codec import Codec, codec_text, is_lossless


class Group(Maps):
    """The ranks of a group and the collectives over them. Made by :func:`holdfast.init`.

    When a rank is lost, ops under way are repaired and go on among the survivors, who keep their
    numbers; see :meth:`outcome` for what a result is made of, and the option `on_peer_loss`.

    Arrays are NumPy arrays, torch tensors, or a GPU's with ``__cuda_array_interface__``, of any
    shape; all ranks pass as many elements of one dtype, unless said otherwise, all on the host or
    all on GPUs. ``async_op=True`` returns a :class:`Work`; leave arrays alone until it has ended.
    """

    def __init__(self, native: _core.Communicator, node: _core.Node | None = None) -> None:
        super().__init__(native, node)
        _process.add(self)

    def all_reduce(
        self,
        array: Any,
        op: str = "sum",
        async_op: bool = False,
        timeout: float | None = None,
        atomic: bool = False,
        codec: Codec | str | None = None,
        residual: Any = None,
        priority: int = 0,
        weight: float | None = None,
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
        atomic : bool
            Have one set of contributors for the whole result even when a rank is lost on the way;
            costs a copy of the input.
        codec : Codec or str, optional
            What the data travels as; a lossy one takes floating elements, and of ops sum and avg.
            Default: as the options say.
        residual : array, optional
            Error feedback: float32, one to an element of the input. Added to the input; when the
            op has ended well, what was not sent of the sum. An op that fails leaves it alone.
        priority : int
            Of the ops under way, those of higher priority go first, piece by piece; the others
            still get a share. Orders what this rank does: ranks may give different ones.
        weight : float, optional
            With ``op="avg"`` and floating elements: how much this rank's array counts, 0 or more;
            of all ranks, or of none. Each part of the result is the sum of weight times array over
            the sum of the weights, of exactly the ranks that are in it, also when one is lost. At
            0 an array counts nothing, whatever it holds; all at 0 give zeros.

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
        plain = not async_op and timeout is None and codec is None and residual is None
        free = plain and weight is None and not priority and self._under_way is None
        ended = self._run_plain("all_reduce", array, array, op, 0, atomic) if free else None
        if ended is not None:
            self._last = ended
            return None
        request = self._request("all_reduce")
        block = request.array("array", array, written=True).block
        request.encode(codec, residual, [block])
        request.weigh(weight, op)
        call = request.call(
            [block], [block], op=op, timeout=timeout, atomic=atomic, priority=priority
        )
        return self._go(request, call, async_op)

    def reduce(
        self,
        array: Any,
        root: int = 0,
        op: str = "sum",
        async_op: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> Work | None:
        """Reduce over all ranks to the root, in place there; other ranks' arrays stay.

        Parameters
        ----------
        root : int
            Rank that gets the result.
        array, op, async_op, timeout, priority
            As in :meth:`all_reduce`, and so are the errors.
        """
        request = self._request("reduce")
        block = request.array("array", array, written=self._rank == root).block
        output = [block] if self._rank == root else []
        call = request.call([block], output, op=op, root=root, timeout=timeout, priority=priority)
        return self._go(request, call, async_op)

    def broadcast(
        self,
        array: Any,
        root: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
        codec: Codec | str | None = None,
        residual: Any = None,
        priority: int = 0,
    ) -> Work | None:
        """Copy the root's array to every rank, in place.

        Parameters
        ----------
        array : array
            Any shape; the data at the root, and replaced by it elsewhere. With a codec that loses
            something, the root's array, too, becomes what the others get.
        root : int
            Rank that has the data.
        async_op, timeout, codec, residual, priority
            As in :meth:`all_reduce`, and so are the errors.
        """
        plain = not async_op and timeout is None and codec is None and residual is None
        free = plain and not priority and self._under_way is None
        if free and (ended := self._run_plain("broadcast", array, array, "sum", root)) is not None:
            self._last = ended
            return None
        request = self._request("broadcast")
        text = codec_text(codec)
        written = self._rank != root or not (text == "" or is_lossless(text))
        block = request.array("array", array, written=written).block
        request.encode(codec, residual, [block])
        call = request.call([block], [block], root=root, timeout=timeout, priority=priority)
        return self._go(request, call, async_op)

    def reduce_scatter(
        self,
        output: Any,
        input: Any,
        op: str = "sum",
        async_op: bool = False,
        timeout: float | None = None,
        codec: Codec | str | None = None,
        residual: Any = None,
        priority: int = 0,
        weight: float | None = None,
    ) -> Work | None:
        """Reduce over all ranks; rank r gets block r.

        Parameters
        ----------
        output : array
            Block r of the result.
        input : array or sequence of arrays
            `size` blocks, as one array (of `size` times the output's elements) or as a sequence.
        op, async_op, timeout, codec, residual, priority, weight
            As in :meth:`all_reduce`.
        """
        plain = not async_op and timeout is None and codec is None and residual is None
        free = plain and weight is None and not priority and self._under_way is None
        if free and (ended := self._run_plain("reduce_scatter", input, output, op)) is not None:
            self._last = ended
            return None
        request = self._request("reduce_scatter")
        own = request.array("output", output, written=True)
        blocks = request.blocks("input", input, own, written=False)
        request.encode(codec, residual, blocks)
        request.weigh(weight, op)
        call = request.call(blocks, [own.block], op=op, timeout=timeout, priority=priority)
        return self._go(request, call, async_op)

    def all_gather(
        self,
        output: Any,
        input: Any,
        async_op: bool = False,
        timeout: float | None = None,
        codec: Codec | str | None = None,
        residual: Any = None,
        priority: int = 0,
        on_hole: str | None = None,
    ) -> Work | None:
        """Give every rank's input to every rank.

        Parameters
        ----------
        output : array or sequence of arrays
            `size` blocks; block r becomes rank r's input. Blocks of a sequence may differ in size.
        input : array
            This rank's block.
        async_op, timeout, codec, residual, priority
            As in :meth:`all_reduce`. With a codec every rank, this one too, gets what its block is
            after one encoding.
        on_hole : str, optional
            Of a rank that is away and whose block nobody has: ``"raise"`` PeerLost on all ranks,
            and `output` counts for nothing; ``"zero"``: zeros. Default: the option `on_hole`.
        """
        plain = not async_op and timeout is None and codec is None and residual is None
        free = plain and on_hole is None and not priority and self._under_way is None
        if free and (ended := self._run_plain("all_gather", input, output)) is not None:
            self._last = ended
            return None
        request = self._request("all_gather")
        own = request.array("input", input)
        blocks = request.blocks("output", output, own, written=True)
        request.encode(codec, residual, [own.block])
        call = request.call(
            [own.block], blocks, timeout=timeout, priority=priority, on_hole=on_hole
        )
        return self._go(request, call, async_op)

    def all_to_all(
        self,
        output: Any,
        input: Any,
        output_splits: Sequence[int] | None = None,
        input_splits: Sequence[int] | None = None,
        async_op: bool = False,
        timeout: float | None = None,
        codec: Codec | str | None = None,
        residual: Any = None,
        priority: int = 0,
        on_hole: str | None = None,
    ) -> Work | None:
        """Send block d of the input to rank d; block s of the output comes from rank s.

        Parameters
        ----------
        output, input : array
            Distinct memory. Without splits, `size` equal blocks each.
        output_splits, input_splits : sequence of int, optional
            Elements of each block. All ranks give some, or none does.
        async_op, timeout, codec, residual, priority
            As in :meth:`all_reduce`. A rank's block for itself is not encoded.
        on_hole : str, optional
            As in :meth:`all_gather`, also where no rank expects elements of the one that is away.
        """
        equal = input_splits is None and output_splits is None
        plain = not async_op and timeout is None and codec is None and residual is None
        plain = plain and equal and on_hole is None
        free = plain and not priority and self._under_way is None
        if free and (ended := self._run_plain("all_to_all", input, output)) is not None:
            self._last = ended
            return None
        request = self._request("all_to_all")
        source = request.array("input", input)
        target = request.array("output", output, written=True)
        give = request.splits("input", source, input_splits)
        take = request.splits("output", target, output_splits)
        request.encode(codec, residual, give)
        call = request.call(
            give, take, timeout=timeout, equal_blocks=equal, priority=priority, on_hole=on_hole
        )
        return self._go(request, call, async_op)

    def gather(
        self,
        output: Any,
        input: Any,
        root: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
        priority: int = 0,
        on_hole: str | None = None,
    ) -> Work | None:
        """Give every rank's input to the root.

        Parameters
        ----------
        output : array, sequence of arrays, or None
            At the root `size` blocks, elsewhere None.
        input : array
            This rank's block.
        root, async_op, timeout, priority
            As in :meth:`reduce`.
        on_hole : str, optional
            As in :meth:`all_gather`; ranks that are not the root fail with it.
        """
        request = self._request("gather")
        own = request.array("input", input)
        is_root = self._rank == root
        blocks = request.blocks("output", output, own, written=True) if is_root else []
        call = request.call(
            [own.block], blocks, root=root, timeout=timeout, priority=priority, on_hole=on_hole
        )
        return self._go(request, call, async_op)

    def scatter(
        self,
        output: Any,
        input: Any,
        root: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
        priority: int = 0,
    ) -> Work | None:
        """Give block r of the root's input to rank r.

        Parameters
        ----------
        output : array
            This rank's block.
        input : array, sequence of arrays, or None
            At the root `size` blocks, elsewhere None.
        root, async_op, timeout, priority
            As in :meth:`reduce`.
        """
        request = self._request("scatter")
        own = request.array("output", output, written=True)
        is_root = self._rank == root
        blocks = request.blocks("input", input, own, written=False) if is_root else []
        call = request.call(blocks, [own.block], root=root, timeout=timeout, priority=priority)
        return self._go(request, call, async_op)

    def barrier(self, async_op: bool = False, timeout: float | None = None) -> Work | None:
        """Wait until every rank has come here; parameters and errors as in :meth:`all_reduce`."""
        request = self._request("barrier")
        return self._go(request, request.call([], [], timeout=timeout), async_op)

    def send(
        self,
        array: Any,
        peer: int,
        tag: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | None:
        """Send to one rank; messages of one tag arrive in the order they were sent.

        Parameters
        ----------
        array : array
            Any shape.
        peer, tag : int
            Rank to send to; 0 to 2147483647, of the message: a receive takes those of its own tag.
        async_op, timeout
            As in :meth:`all_reduce`, and so are the errors.
        """
        request = self._request("send")
        block = request.array("array", array).block
        call = request.call([block], [], peer=peer, tag=tag, timeout=timeout)
        return self._go(request, call, async_op)

    def recv(
        self,
        array: Any,
        peer: int | None = None,
        tag: int = 0,
        async_op: bool = False,
        timeout: float | None = None,
    ) -> Work | int:
        """Receive into the array.

        Parameters
        ----------
        array : array
            As many elements as are sent, of the same dtype.
        peer : int, optional
            Rank to receive from; default: from whose message of this tag comes first.
        tag, async_op, timeout
            As in :meth:`send`.

        Returns
        -------
        Work or int
            The sender's rank; a Work (see its `source`) with ``async_op=True``.
        """
        request = self._request("recv")
        block = request.array("array", array, written=True).block
        source = ANY_SOURCE if peer is None else peer
        call = request.call([], [block], peer=source, tag=tag, timeout=timeout)
        if async_op:
            return self._start(request, call)
        return self._run(request, call)

    def __repr__(self) -> str:
        """Name, rank and size."""
        return f"<holdfast.Group: {self._label}>"
