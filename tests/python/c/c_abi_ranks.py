"""What ranks do through the C interface, by ctypes and without the Python bindings."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

F32, I64 = 13, 8
SUM = 0
OK, PEER_LOST, TIMEOUT, PROTOCOL_ERROR, CONFIG_ERROR = 0, 1, 2, 5, 6


class Options(ctypes.Structure):
    _fields_ = (
        ("size", c_size_t),
        ("transports", c_char_p),
        ("timeout_ns", c_int64),
        ("connect_timeout_ns", c_int64),
        ("address", c_char_p),
        ("port", ctypes.c_uint16),
        ("host_id", c_char_p),
        ("algorithm", c_char_p),
        ("no_fault_tolerance", c_int32),
        ("on_peer_loss", c_int),
        ("heartbeat_ns", c_int64),
        ("coordinator", c_char_p),
        ("plan", c_char_p),
        ("tune", c_int32),
        ("http", c_char_p),
        ("flight_dir", c_char_p),
        ("codec", c_char_p),
        ("codec_min_bytes", ctypes.c_uint64),
        ("time_slice_ns", ctypes.c_int64),
        ("on_hole", c_int),
        ("silence_ns", c_int64),
        ("trust_resets", c_int),
        ("topology", c_char_p),
        ("domain", c_char_p),
        ("secret_file", c_char_p),
        ("http_credentials", c_char_p),
        ("http_cert", c_char_p),
        ("http_key", c_char_p),
        ("audit_file", c_char_p),
        ("http_insecure", c_int32),
        ("grace_ns", c_int64),
        ("witness", c_char_p),
        ("trunk", c_char_p),
        ("lanes", c_uint64),
        ("relay", c_char_p),
        ("mesh", c_char_p),
    )


def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(os.environ["LIBHOLDFAST"])
    lib.hf_last_error.restype = c_char_p
    lib.hf_version.restype = c_char_p
    lib.hf_group_transport.restype = c_char_p
    lib.hf_node_http_address.restype = c_char_p
    lib.hf_node_http_address.argtypes = [c_void_p]
    for name in ("hf_node_free", "hf_store_free", "hf_group_free", "hf_work_free"):
        getattr(lib, name).argtypes = [c_void_p]
        getattr(lib, name).restype = None
    lib.hf_group_transport.argtypes = [c_void_p, c_int32]
    for name in ("hf_group_rank", "hf_group_size", "hf_work_source"):
        getattr(lib, name).argtypes = [c_void_p]
    lib.hf_group_close.argtypes = [c_void_p, c_int64]
    lib.hf_work_wait.argtypes = [c_void_p, c_int64]
    return lib


LIB = library()


def check(status: int, expected: int = OK) -> None:
    assert status == expected, (status, LIB.hf_last_error())


def join(name: str = "world") -> tuple[c_void_p, c_void_p]:
    assert "holdfast" not in sys.modules
    options, node, group = Options(), c_void_p(), c_void_p()
    check(LIB.hf_options_from_env_sized(byref(options), c_size_t(ctypes.sizeof(Options))))
    assert options.size == ctypes.sizeof(Options)
    check(LIB.hf_node_create(byref(options), byref(node)))
    check(LIB.hf_group_join_env(node, name.encode(), byref(group)))
    return node, group


def leave(node: c_void_p, group: c_void_p) -> None:
    check(LIB.hf_barrier(group, None))
    check(LIB.hf_group_close(group, 5_000_000_000))
    LIB.hf_group_free(group)
    LIB.hf_node_free(node)


def floats(*values: float) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * len(values))(*values)


def counts(*values: int) -> ctypes.Array[c_uint64]:
    return (c_uint64 * len(values))(*values)


def n(value: int) -> c_uint64:
    return c_uint64(value)


def every_collective() -> None:
    node, group = join()
    rank, size = LIB.hf_group_rank(group), LIB.hf_group_size(group)
    assert LIB.hf_group_transport(group, rank) == b"self"
    assert LIB.hf_group_transport(group, size) is None
    total = sum(range(1, size + 1))
    a = floats(*[rank + 1.0] * 5)
    out = floats(*[0.0] * 5)
    check(LIB.hf_all_reduce(group, a, out, n(5), F32, SUM, None))
    assert list(out) == [total] * 5
    check(LIB.hf_broadcast(group, a, n(5), F32, size - 1, None))
    assert list(a) == [size] * 5
    memory = c_void_p()
    check(LIB.hf_allocate(node, ctypes.c_size_t(4 << 20), byref(memory)))
    pooled = (ctypes.c_float * (1 << 20)).from_address(memory.value or 0)
    pooled[0] = pooled[-1] = rank + 1.0
    check(LIB.hf_all_reduce(group, memory, memory, n(1 << 20), F32, SUM, None))
    assert [pooled[0], pooled[-1]] == [total] * 2
    LIB.hf_release(memory)
    assert LIB.hf_allocate(node, ctypes.c_size_t(2**64 - 1), byref(memory)) != OK
    own = floats(rank, rank)
    many = floats(*[-1.0] * (2 * size))
    check(LIB.hf_all_gather(group, own, many, n(2), F32, None))
    assert list(many) == [float(r) for r in range(size) for _ in range(2)]
    uneven = counts(*range(1, size + 1))
    mine = floats(*[float(rank)] * (rank + 1))
    whole = floats(*[-1.0] * total)
    check(LIB.hf_all_gatherv(group, mine, whole, uneven, F32, None))
    assert list(whole) == [float(r) for r in range(size) for _ in range(r + 1)]
    part = floats(*[0.0] * (rank + 1))
    check(LIB.hf_reduce_scatterv(group, whole, part, uneven, F32, SUM, None))
    assert list(part) == [float(rank * size)] * (rank + 1)
    two = floats(0, 0)
    check(LIB.hf_reduce_scatter(group, many, two, n(2), F32, SUM, None))
    assert list(two) == [rank * size] * 2
    weighted, weight = floats(rank, rank), ctypes.c_double(rank)
    check(LIB.hf_all_reduce_weighted(group, own, weighted, n(2), F32, weight, None))
    mean = sum(r * r for r in range(size)) / (total - size)
    assert all(abs(one - mean) < 1e-6 for one in weighted)
    check(LIB.hf_reduce_scatter_weighted(group, many, two, n(2), F32, weight, None))
    assert all(abs(one - rank) < 1e-6 for one in two)
    below = ctypes.c_double(-2)
    assert LIB.hf_all_reduce_weighted(group, own, weighted, n(2), F32, below, None) != OK
    given = floats(*[10.0 * rank + d for d in range(size)])
    got = floats(*[0.0] * size)
    check(LIB.hf_all_to_all(group, given, got, n(1), F32, None))
    assert list(got) == [10.0 * s + rank for s in range(size)]
    ones = counts(*[1] * size)
    check(LIB.hf_all_to_allv(group, given, ones, got, ones, F32, None))
    at_root = floats(*[0.0] * (2 * size)) if rank == 0 else None
    check(LIB.hf_gather(group, own, at_root, n(2), F32, 0, None))
    back = floats(-1, -1)
    check(LIB.hf_scatter(group, at_root, back, n(2), F32, 0, None))
    assert list(back) == [rank, rank]
    check(LIB.hf_reduce(group, own, two if rank == 1 else None, n(2), F32, SUM, 1, None))
    if rank == 1:
        assert list(two) == [float(sum(range(size)))] * 2
    source = c_int32()
    if rank == 0:
        for _ in range(size - 1):
            check(LIB.hf_recv(group, two, n(2), F32, -1, 7, byref(source), None))
            assert list(two) == [source.value] * 2
    else:
        check(LIB.hf_send(group, own, n(2), F32, 0, 7, None))
    leave(node, group)


def ops_in_flight() -> None:
    node, group = join()
    size = LIB.hf_group_size(group)
    arrays = [floats(*[float(i)] * (10_000 * i + 1)) for i in range(5)]
    works = []
    for a in arrays:
        work = c_void_p()
        check(LIB.hf_group_set_priority(group, c_int32(len(works) - 2)))
        check(LIB.hf_all_reduce(group, a, a, n(len(a)), F32, SUM, byref(work)))
        works.append(work)
    check(LIB.hf_group_set_priority(None, c_int32(1)), CONFIG_ERROR)
    for i, work in reversed(list(enumerate(works))):
        check(LIB.hf_work_wait(work, -1))
        done = c_int(0)
        check(LIB.hf_work_test(work, byref(done)))
        assert done.value == 1
        assert arrays[i][-1] == i * size
        LIB.hf_work_free(work)
    leave(node, group)


def refusals() -> None:
    node, group = join()
    a = floats(1, 2)
    for status, text in (
        (LIB.hf_all_reduce(group, a, a, n(2), 99, SUM, None), b"dtype 99"),
        (LIB.hf_all_reduce(group, a, a, n(2), F32, 42, None), b"op 42"),
        (LIB.hf_all_reduce(None, a, a, n(2), F32, SUM, None), b"group is NULL"),
        (LIB.hf_all_reduce(group, None, a, n(2), F32, SUM, None), b"no memory"),
        (LIB.hf_broadcast(group, a, n(2), F32, 9, None), b"root 9"),
        (LIB.hf_all_gatherv(group, a, a, None, F32, None), b"counts is NULL"),
    ):
        # The text is the last call's.
        assert status == CONFIG_ERROR, status
        del text
    check(LIB.hf_all_reduce(group, a, a, n(2), 99, SUM, None), CONFIG_ERROR)
    assert b"dtype 99; accepted" in LIB.hf_last_error(), LIB.hf_last_error()
    options = Options()
    created = c_void_p()
    check(LIB.hf_node_create(byref(options), byref(created)), CONFIG_ERROR)
    assert b"hf_options_init" in LIB.hf_last_error()
    check(LIB.hf_options_init(byref(options)))
    options.transports = b"pigeon"
    check(LIB.hf_node_create(byref(options), byref(created)), CONFIG_ERROR)
    assert b"pigeon" in LIB.hf_last_error()
    check(LIB.hf_options_init(byref(options)))
    options.http = b"127.0.0.1:0"
    check(LIB.hf_node_create(byref(options), byref(created)))
    host, _, port = LIB.hf_node_http_address(created).partition(b":")
    assert (host, int(port) > 0) == (b"127.0.0.1", True)
    LIB.hf_node_free(created)
    assert LIB.hf_node_http_address(None) == b""
    # Refused calls leave the group as it was; a good one leaves no error.
    check(LIB.hf_barrier(group, None))
    assert LIB.hf_last_error() == b""
    for name in ("hf_node_free", "hf_store_free", "hf_group_free", "hf_work_free"):
        getattr(LIB, name)(None)
    leave(node, group)


def other_calls() -> None:
    """Rank 1 calls something else: both are told what each of them called."""
    node, group = join()
    rank = LIB.hf_group_rank(group)
    a = floats(1, 2)
    if rank == 0:
        status = LIB.hf_all_reduce(group, a, a, n(2), F32, SUM, None)
    else:
        status = LIB.hf_broadcast(group, a, n(2), F32, 1, None)
    if status == OK:
        status = LIB.hf_barrier(group, None)
    check(status, PROTOCOL_ERROR)
    text = LIB.hf_last_error()
    assert b"rank 0 called all_reduce #0 (f32, 2 elements, sum)" in text, text
    assert b"rank 1 called broadcast #0 (f32, 2 elements, root 1)" in text, text
    LIB.hf_group_free(group)
    LIB.hf_node_free(node)


def lose_a_rank() -> None:
    node, group = join()
    rank = LIB.hf_group_rank(group)
    a = floats(*[1.0] * 1_000_000)
    check(LIB.hf_all_reduce(group, a, a, n(len(a)), F32, SUM, None))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    status = OK
    while status == OK:
        status = LIB.hf_all_reduce(group, a, a, n(len(a)), F32, SUM, None)
    assert time.monotonic() - began < 10
    check(status, PEER_LOST)
    ranks = (c_int32 * 4)()
    LIB.hf_last_error_ranks.restype = c_size_t
    assert LIB.hf_last_error_ranks(ranks, c_size_t(4)) == 1
    assert ranks[0] == 1
    check(LIB.hf_group_health(group))
    check(LIB.hf_group_advance(group, c_int64(-1)))
    check(LIB.hf_all_reduce(group, a, a, n(len(a)), F32, SUM, None))
    LIB.hf_group_free(group)
    LIB.hf_node_free(node)


class Outcome(ctypes.Structure):
    _fields_ = (("epoch", ctypes.c_uint32), ("retried", ctypes.c_int32))


def go_on() -> None:
    """Rank 1 goes; the others' op ends with what the two of them gave."""
    node, group = join()
    if LIB.hf_group_rank(group) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    a = floats(*[1.0] * 1_000_000)
    work = c_void_p()
    check(LIB.hf_all_reduce(group, a, a, n(len(a)), F32, SUM, byref(work)))
    outcome = Outcome()
    if LIB.hf_work_outcome(work, byref(outcome)) != OK:
        check(LIB.hf_work_wait(work, c_int64(-1)))
        check(LIB.hf_work_outcome(work, byref(outcome)))
    assert outcome.epoch == 2
    ranks = (c_int32 * 4)()
    for function in ("hf_work_contributors", "hf_work_missing", "hf_group_live_ranks"):
        getattr(LIB, function).restype = c_size_t
    assert LIB.hf_work_contributors(work, ranks, c_size_t(4)) == 2
    assert list(ranks)[:2] == [0, 2]
    assert LIB.hf_work_missing(work, ranks, c_size_t(4)) == 1
    assert ranks[0] == 1
    assert LIB.hf_group_live_ranks(group, ranks, c_size_t(4)) == 2
    assert a[0] == a[999_999] == 2.0
    LIB.hf_work_free(work)
    holes(group)
    LIB.hf_group_free(group)
    LIB.hf_node_free(node)


def holes(group: c_void_p) -> None:
    """What rank 1 would have given is an error, or zeros."""
    rank = LIB.hf_group_rank(group)
    own, all_of_them = floats(rank + 1.0), floats(7, 7, 7)
    lost = (c_int32 * 3)()
    LIB.hf_last_error_ranks.restype = c_size_t
    for call in (
        lambda: LIB.hf_all_gather(group, own, all_of_them, n(1), F32, None),
        lambda: LIB.hf_gather(group, own, all_of_them, n(1), F32, 2, None),
        lambda: LIB.hf_all_to_all(group, floats(1, 2, 3), all_of_them, n(1), F32, None),
    ):
        check(call(), PEER_LOST)
        assert b"on_hole" in LIB.hf_last_error()
        assert (LIB.hf_last_error_ranks(lost, c_size_t(3)), lost[0]) == (1, 1)
    check(LIB.hf_group_set_on_hole(group, 1))
    check(LIB.hf_all_gather(group, own, all_of_them, n(1), F32, None))
    assert list(all_of_them) == [1.0, 0.0, 3.0]
    check(LIB.hf_group_set_on_hole(group, 0))
    check(LIB.hf_all_gather(group, own, all_of_them, n(1), F32, None), PEER_LOST)
    check(LIB.hf_group_set_on_hole(group, 2), CONFIG_ERROR)
    assert b"HF_HOLE_ZERO" in LIB.hf_last_error()
    check(LIB.hf_group_set_on_hole(None, 0), CONFIG_ERROR)


SET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int64, c_void_p, c_size_t, POINTER(c_size_t))


class StoreFunctions(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("context", c_void_p), ("set", SET), ("get", GET))


def own_store() -> None:
    """A store made of two functions of the program's."""
    folder = Path.cwd()

    def path(key: bytes) -> Path:
        return folder / key.hex()

    def put(_: object, key: bytes, value: int, length: int) -> int:
        draft = folder / f"{os.getpid()}.{key.hex()}"
        draft.write_bytes(ctypes.string_at(value, length))
        draft.rename(path(key))
        return OK

    def get(_: object, key: bytes, limit: int, to: int, capacity: int, length: object) -> int:
        deadline = time.monotonic() + limit / 1e9
        while not path(key).exists():
            if time.monotonic() > deadline:
                return TIMEOUT
            time.sleep(0.001)
        value = path(key).read_bytes()
        ctypes.memmove(to, value, min(capacity, len(value)))
        length[0] = len(value)  # type: ignore[index]
        return OK

    functions = StoreFunctions(ctypes.sizeof(StoreFunctions), None, SET(put), GET(get))
    node, store, group = c_void_p(), c_void_p(), c_void_p()
    check(LIB.hf_node_create(None, byref(node)))
    check(LIB.hf_store_custom(byref(functions), byref(store)))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    check(LIB.hf_group_join(node, store, b"own store", rank, size, byref(group)))
    LIB.hf_store_free(store)
    a = (c_int64 * 3)(rank, 1, 2)
    check(LIB.hf_all_reduce(group, a, a, n(3), I64, SUM, None))
    assert list(a) == [sum(range(size)), size, 2 * size]
    leave(node, group)
