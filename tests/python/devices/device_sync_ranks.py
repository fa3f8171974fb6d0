"""Ranks of test_device_sync.py: states in a GPU's memory, over the emulated device."""

from __future__ import annotations

import os
import signal
import zlib
from typing import Any

import gpu_array
import numpy as np
import pytest
import xxhash
from cuda_driver import is_emulated
from gpu_array import GpuArray, staged

import holdfast
from holdfast import _core
from holdfast.comm.state import state_sender
from holdfast.comm.state.chunks import CHUNK_BYTES

MIB = 1 << 20


def _values(seed: int) -> dict[str, np.ndarray]:
    """Arrays that end with a chunk, before it and behind it."""
    rng = np.random.default_rng(seed)
    sizes = {"odd": 5, "none": 0, "short": 241, "whole": MIB, "more": 2 * MIB + 1025}
    return {name: rng.integers(0, 256, n, np.uint8) for name, n in sizes.items()}


def _on_device(state: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: GpuArray(values) for name, values in state.items()}


def _of(state: dict[str, Any]) -> dict[str, np.ndarray]:
    return {k: v.get() if isinstance(v, GpuArray) else v for k, v in state.items()}


def _same(state: dict[str, Any], seed: int) -> bool:
    return all((_of(state)[k] == v).all() for k, v in _values(seed).items())


def _digest(state: dict[str, np.ndarray]) -> str:
    """What the documentation says: the hash of the chunks' hashes, in the order of names."""
    hashes = b"".join(
        xxhash.xxh3_128_digest(values[first : first + CHUNK_BYTES].tobytes())
        for _, values in sorted(state.items())
        for first in range(0, len(values), CHUNK_BYTES)
    )
    return xxhash.xxh3_128_digest(hashes).hex()


def _flip(state: dict[str, Any], name: str, at: int) -> None:
    values = _of(state)[name].copy()
    values[at] ^= 4
    if isinstance(state[name], GpuArray):
        state[name].write(values)
    else:
        state[name][:] = values


def compare_where_the_state_is() -> None:
    """HOSTS: ranks whose state is in host memory."""
    hosts = os.environ["HOSTS"].split(",")
    with holdfast.init() as group:
        me = group.rank

        def state_of(seed: int) -> dict[str, Any]:
            values = _values(seed)
            return values if str(me) in hosts else _on_device(values)

        state = state_of(1)
        report = group.sync(state)
        assert (report.fetched, report.chunks, report.bytes) == (0, 6, 3 * MIB + 1271)
        assert report.digest == _digest(_values(1))
        # One bit on one rank: that chunk alone moves.
        for wrong in range(group.size):
            if me == wrong:
                _flip(state, "more", MIB + 17)
            report = group.sync(state)
            assert report.fetched == (me == wrong), report
            assert _same(state, 1)
        # The majority wins; then nobody agrees.
        state = state_of(5 if me == 0 else 6)
        assert group.sync(state).source == 1
        assert _same(state, 6)
        state = state_of(100 + me)
        assert group.sync(state).fetched == (0 if me == 0 else 6)
        assert _same(state, 100)


def hold_some_tensors_on_each() -> None:
    with holdfast.init() as group:
        me = group.rank
        values = _values(3 if me == 1 else 4)
        names = sorted(values)
        state: dict[str, Any] = {
            name: values[name] if (i + me) % 2 else GpuArray(values[name])
            for i, name in enumerate(names)
        }
        assert group.sync(state).fetched == (6 if me == 1 else 0)
        assert _same(state, 4)


def fill_gaps_and_leave_what_is_between() -> None:
    with holdfast.init() as group:
        me = group.rank
        whole = np.arange(48, dtype=np.float64).reshape(6, 8) + me
        device = GpuArray(whole, None, shape=(3, 4), strides=(128, 16))
        backwards = GpuArray(whole[0] + me, None, shape=(8,), strides=(-8,))
        backwards._said["data"] = (backwards._memory.address + 56, False)
        report = group.sync({"grid": device, "backwards": backwards})
        assert report.fetched == (0 if me == 0 else 2)
        right = whole.copy()
        right[::2, ::2] -= me
        device._said.clear()
        assert (device.get() == right).all()
        assert (backwards.get() == np.arange(8)).all()
        wide = GpuArray(np.zeros(4), None, shape=(3, 4), strides=(0, 8))
        with pytest.raises(holdfast.ConfigError, match="several elements may be one memory"):
            group.sync({"wide": wide})
        group.barrier()


def give_more_than_is_copied_at_once() -> None:
    """Everybody gives and takes, with one copy at a time."""
    state_sender._COPIES_AT_ONCE = 1
    with holdfast.init() as group:
        me = group.rank
        values = np.zeros(12 * MIB, np.uint8)
        state = {"a": GpuArray(values)}
        group.sync(state)
        # Each rank has two wrong chunks of its own, apart from each other.
        values[2 * me * MIB] = 1
        values[(2 * me + 7) * MIB - 1] = 1
        state["a"].write(values)
        before = staged().pinned_bytes
        report = group.sync(state, overlap=True)
        assert report.fetched == (0 if me == report.source else report.fetched)
        group.barrier()
        told = zlib.crc32(state["a"].get().tobytes())
        rows = np.zeros(group.size, np.uint32)
        group.all_gather(rows, np.array([told], np.uint32))
        assert (rows == told).all()
        # A run each way, and what hashing takes.
        assert staged().pinned_bytes - before <= 40 * MIB


def follow_the_streams_that_made_it() -> None:
    with holdfast.init() as group:
        stream = staged().make_stream()
        state = {"a": GpuArray(np.full(MIB, group.rank == 1, np.uint8), stream)}
        assert group.sync(state).fetched == (group.rank == 1)
        assert (state["a"].get() == 0).all()


def bring_a_newcomer_up() -> None:
    """Two have the state, one of them on its GPU; LATE: who joins them, and only listens."""
    late = bool(os.environ.get("LATE"))
    with holdfast.join(os.environ["URL"], min_peers=2) as group:
        # Each node has an emulated device of its own.
        node = group._node
        assert node is not None
        gpu_array.staged = node.staged
        values = _values(9 if late else 8)
        state: dict[str, Any] = values if group.rank == 0 else _on_device(values)
        report = group.sync(state)
        assert report.fetched == (6 if late else 0)
        print("ready", flush=True)
        joined: tuple[int, ...] = ()
        while not (joined or late):
            joined = group.advance().joined
        if late:
            group.advance()
        assert _same(state, 8)
        group.barrier()
    print("ok", flush=True)


def say_what_cannot_be() -> None:
    with holdfast.init() as group:
        nowhere = GpuArray(np.ones(4), None, data=(np.ones(4).ctypes.data, False))
        with pytest.raises(holdfast.ConfigError, match=r"sync of .*'a'.*no memory that the CUDA"):
            group.sync({"a": nowhere})
        too_long = GpuArray(np.ones(2), None, shape=(2**32,))
        with pytest.raises(holdfast.ConfigError, match="of the host, or of nobody"):
            group.sync({"a": too_long})
        with pytest.raises(holdfast.ConfigError, match="absent"):
            group.sync({"a" if group.rank == 0 else "b": GpuArray(np.ones(4))})
        array = GpuArray(np.zeros(17 * MIB, np.uint8))
        if is_emulated():
            # The sums of 17 MiB take more than what is left of 256.
            full = _core.DeviceMemory(staged(), 238 * MIB)
            with pytest.raises(holdfast.HoldfastError, match="of device memory, of which"):
                group.sync({"a": array})
            del full
        assert group.sync({"a": array}).fetched == 0


def lose_a_holder() -> None:
    """Rank 2 dies when it has sent one run of many; the others end up alike."""
    group = holdfast.init()
    values = np.full(6 * MIB, group.rank == 0, np.uint8)
    values[MIB : 2 * MIB] = 0
    values[3 * MIB : 4 * MIB] = 0
    state = {"a": GpuArray(values)}
    if group.rank == 2:
        lend = state_sender.State.lend

        def die(self: Any, run: list[int]) -> Any:
            room = lend(self, run)
            os.kill(os.getpid(), signal.SIGKILL)
            return room

        state_sender.State.lend = die  # type: ignore[method-assign]
    group.sync(state)
    assert (state["a"].get() == 0).all()
    group.barrier()
    group.close()
    print("ok")
