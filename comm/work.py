"""Work: one op in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence

from holdfast import _core, _process
from holdfast.comm.arrays import Buffer
from holdfast.comm.outcome import Outcome
from holdfast.errors import ConfigError

# Longer than any time limit an op can have.
_FOREVER_S = 1e9


class Work:
    """Handle of an op that was started with ``async_op=True``. Awaitable.

    Parameters
    ----------
    native : _core.Work
        The native handle.
    outputs : sequence of Buffer
        What is written; copies are stored back when the op is waited for.
    """

    def __init__(self, native: _core.Work, outputs: Sequence[Buffer]) -> None:
        self._native = native
        self._outputs = outputs
        self._stored = False

    def done(self) -> bool:
        """Return whether the op has ended, well or badly. Never blocks."""
        return self._native.done()

    @property
    def source(self) -> int | None:
        """Rank whose message a receive took; None before it has ended, and for other ops."""
        source = self._native.source
        return None if source < 0 else source

    @property
    def outcome(self) -> Outcome:
        """What the result is made of. Once it has ended, and well."""
        if not self._native.done():
            raise ConfigError("outcome of an op that has not ended; wait() for it first")
        return Outcome(*self._native.outcome)

    def wait(self, timeout: float | None = None) -> None:
        """Block until the op has ended.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most; the op goes on afterwards. Default: the op's own limit.

        Raises
        ------
        Timeout
            When it is still running.
        HoldfastError
            When the op failed.
        """
        _process.check()
        self._native.wait(_FOREVER_S if timeout is None else timeout)
        self._store()

    def wait_on(self, stream: int) -> None:
        """Make a CUDA stream wait for the op, without blocking the host.

        What is enqueued on the stream afterwards sees the result. Arrays in a GPU's memory only.
        Until the work has ended, do not call what blocks in CUDA on that stream, such as a copy to
        memory that is not pinned: the driver may hold what the op still needs.

        Parameters
        ----------
        stream : int
            Address of the stream (``torch.cuda.Stream.cuda_stream``, ``cupy.cuda.Stream.ptr``), of
            the arrays' device; 1: the legacy default stream, 2: the per-thread one.

        Raises
        ------
        ConfigError
            For an op on host memory.
        Unsupported
            While the stream is captured into a CUDA graph.
        HoldfastError
            When the op has failed. One that fails later sets the stream free; ``wait()`` then says
            why, and so does every later op of the group.
        """
        _process.check()
        _core.wait_on(self._native, stream)

    def _store(self) -> None:
        if self._stored:
            return
        self._stored = True
        for output in self._outputs:
            output.store()

    def __await__(self) -> Generator[object, None, None]:
        """Wait without blocking the event loop."""
        _process.check()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not future.done():
                future.set_result(None)

        def from_any_thread() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        self._native.on_done(from_any_thread)
        yield from future.__await__()
        self.wait()
