"""HostTensor: a table in host memory whose rows a GPU reads where they lie."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from holdfast import _core, _process
from holdfast.comm.arrays import Buffer, Site, buffer
from holdfast.errors import ConfigError, Unsupported

_WHERE = "a table in host memory"
# What a stream is called in the driver where a framework says 0.
_LEGACY_STREAM = 1


def _site(op: str, argument: str) -> Site:
    return Site(f"HostTensor.{op}", argument, _WHERE)


class HostTensor:
    """A table of rows in pinned host memory, gathered by index where the index is.

    With an index on a GPU, the GPU's threads read the rows over the bus and nothing else of the
    table: the processor gathers nothing, and the table may be larger than the GPU's memory. With an
    index on the host, or on a machine without a GPU, the processor gathers, and the rows are the
    same.

    Parameters
    ----------
    table : numpy.ndarray or torch.Tensor
        Shape (rows, ...), any dtype that collectives take, in host memory. It is not copied if it
        is contiguous: writing to it changes the table.
    device : int, optional
        The GPU to pin it for. Default: the first one, if there is any.

    Raises
    ------
    ConfigError
        For a table without rows or elements in a row, or a device that there is not.
    Unsupported
        With `device`, where there is no CUDA driver or the build has no kernels; for a dtype or an
        array that collectives do not take.
    HoldfastError
        When the system does not let so much memory be pinned.

    References
    ----------
    Min et al., "PyTorch-Direct: Enabling GPU Centric Data Access for Very Large Graph Neural
    Network Training with Irregular Accesses", 2021, sections 3 and 4.
    """

    def __init__(self, table: Any, *, device: int | None = None) -> None:
        look = buffer(table, _site("__init__", "the table"))
        if look.device is not None:
            raise ConfigError("HostTensor: the table is on a GPU; accepted: an array on the host")
        self.array: Any = look.flat
        self.shape: tuple[int, ...] = tuple(table.shape)
        self.dtype: str = look.dtype
        if not self.shape or look.count == 0:
            raise ConfigError(
                f"HostTensor: the table has shape {self.shape}; accepted: at least one row, and "
                "one element in it"
            )
        self._row = look.count // self.shape[0]
        staged = _staged(device)
        self.device: int | None = None if staged is None else staged.ordinal
        self._native: _core.HostTable | None = None
        if staged is not None:
            self._native = _core.HostTable(
                staged, look.flat, look.address, self.shape[0], self._row * look.item
            )

    def __len__(self) -> int:
        """Rows."""
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Rows by number; as :meth:`gather`."""
        return self.gather(index)

    def gather(self, index: Any, out: Any = None) -> Any:
        """Gather rows by number.

        Parameters
        ----------
        index : array of integers, any shape
            Numbers of rows; negative ones count from the end. Its place decides who gathers: host
            memory (any integers; lists, too), or this GPU's memory (int64, as a torch tensor or
            with ``__cuda_array_interface__``).
        out : array, optional
            For the rows, where the index is: ``index.shape + table.shape[1:]``, of the table's
            dtype. Needed for an index on a GPU that is no torch tensor.

        Returns
        -------
        array
            `out`, or a new array: of the table's kind on the host, a torch tensor on a GPU, whose
            rows are there in the order of the stream that is current (of an array with the
            interface: the stream that it names).

        Raises
        ------
        IndexError
            For a number out of range: at once on the host; on a GPU, where that row is zeros, by a
            later call of this method or of :meth:`check`.
        ConfigError
            For an index that holds no integers, or an `out` that does not fit.
        """
        if not _is_on_gpu(index):
            return self._gather_here(index, out)
        numbers, rows, stream = self._prepare(index, out)
        native = self._usable()
        native.gather(numbers.address, numbers.count, rows.address, stream)
        return rows.array

    def prefetch(self, index: Any, out: Any = None) -> Prefetch:
        """Gather rows on a stream of the table's own, beside what the current stream does.

        Parameters
        ----------
        index, out
            As for :meth:`gather`. Both must stay as they are until the rows are there, which is
            when a stream that waits has come so far; torch's allocator sees to that.

        Returns
        -------
        Prefetch
            The gather, under way; on the host it has been done.
        """
        if not _is_on_gpu(index):
            return Prefetch(self._gather_here(index, out))
        numbers, rows, stream = self._prepare(index, out)
        native = self._usable()
        native.order(stream, native.stream)
        native.gather(numbers.address, numbers.count, rows.address, native.stream)
        return Prefetch(rows.array, (native, stream, numbers))

    def check(self) -> None:
        """Tell of a number out of range in a gather on the GPU that has ended.

        Raises
        ------
        IndexError
            When there was one, once.
        """
        if self._native is not None and self._native.take_wrong_index():
            raise IndexError(
                f"HostTensor: an index of an earlier gather was out of range; the table has "
                f"{len(self)} rows. That row is zeros"
            )

    def _usable(self) -> _core.HostTable:
        if self._native is None:
            raise Unsupported(
                "HostTensor: the index is on a GPU, and the table was pinned for none; accepted: "
                "an index on the host (holdfast info says what is missing)"
            )
        self.check()
        return self._native

    def _prepare(self, index: Any, out: Any) -> tuple[Buffer, Buffer, int]:
        """Index, place for the rows, and the stream that both are made on."""
        torch = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(index, torch.Tensor)
        numbers = buffer(index.contiguous() if is_tensor else index, _site("gather", "the index"))
        if numbers.dtype != "i64" or numbers.strides is not None:
            raise ConfigError(
                f"HostTensor.gather: the index is {numbers}, strides {numbers.strides}; accepted: "
                "int64, contiguous"
            )
        shape = _shape(index) + self.shape[1:]
        if out is None and is_tensor:
            kind = getattr(cast(Any, torch), _torch_name(self.array))
            out = cast(Any, torch).empty(shape, dtype=kind, device=index.device)
        if out is None:
            raise ConfigError(
                "HostTensor.gather: an index on a GPU that is no torch tensor needs out=, an "
                f"array of shape {shape} there"
            )
        rows = buffer(out, _site("gather", "out"), written=True)
        if rows.device is None or rows.dtype != self.dtype or _shape(out) != shape:
            raise ConfigError(
                f"HostTensor.gather: out is {rows}; accepted: shape {shape} {self.dtype}, on the "
                "GPU that the index is on"
            )
        if rows.flat is not out or rows.strides is not None:
            raise ConfigError("HostTensor.gather: out has gaps; accepted: a contiguous array")
        stream = (numbers.streams + rows.streams + (_LEGACY_STREAM,))[0]
        return numbers, rows, stream

    def _gather_here(self, index: Any, out: Any) -> Any:
        numbers = np.asarray(index)
        if numbers.size == 0 and not isinstance(index, np.ndarray):
            numbers = numbers.astype(np.int64)
        if numbers.dtype.kind not in "iu":
            raise ConfigError(
                f"HostTensor.gather: the index is of {numbers.dtype}; accepted: integers"
            )
        wrong = (numbers < -len(self)) | (numbers >= len(self))
        if wrong.any():
            raise IndexError(
                f"HostTensor.gather: index {numbers[wrong].flat[0]} is out of range; the table has "
                f"{len(self)} rows"
            )
        table = self.array
        if not isinstance(table, np.ndarray):
            chosen = table[sys.modules["torch"].as_tensor(numbers.astype(np.int64))]
            return chosen if out is None else _fits(out, chosen).copy_(chosen)
        if out is None:
            return table[numbers]
        return np.take(table, numbers, axis=0, out=_fits(out, table[:0], numbers.shape))


class Prefetch:
    """Rows that are being gathered."""

    def __init__(self, rows: Any, under_way: tuple[_core.HostTable, int, Buffer] | None = None):
        self._rows = rows
        self._under_way = under_way

    def wait(self) -> Any:
        """Make the stream that was current wait for the rows; the host goes on.

        Returns
        -------
        array
            The rows, as of :meth:`HostTensor.gather`.
        """
        if self._under_way is not None:
            native, stream, _ = self._under_way
            native.order(native.stream, stream)
            self._under_way = None
        return self._rows

    def __del__(self) -> None:
        """Keep their memory from being used again before the rows are there."""
        if self._under_way is not None:
            self.wait()


def _staged(device: int | None) -> _core.Staged | None:
    if device is not None:
        return _process.node().staged(device)
    try:
        return _process.node().staged(0)
    except (Unsupported, ConfigError):  # no driver, or no device
        return None


def _is_on_gpu(index: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(index, torch.Tensor):
        return bool(index.device.type == "cuda")
    return hasattr(index, "__cuda_array_interface__")


def _shape(array: Any) -> tuple[int, ...]:
    interface = getattr(array, "__cuda_array_interface__", None)
    return tuple(array.shape if interface is None else interface["shape"])


def _torch_name(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def _fits(out: Any, like: Any, index: tuple[int, ...] | None = None) -> Any:
    shape = tuple(like.shape) if index is None else index + tuple(like.shape[1:])
    same = type(out) is type(like) and tuple(out.shape) == shape and out.dtype == like.dtype
    if not same:
        raise ConfigError(
            f"HostTensor.gather: out is a {type(out).__name__} of shape "
            f"{tuple(getattr(out, 'shape', ()))} {getattr(out, 'dtype', '')}; accepted: a "
            f"{type(like).__name__} of shape {shape} {like.dtype}"
        )
    return out
