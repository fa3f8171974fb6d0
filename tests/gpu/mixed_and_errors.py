"""What two ranks on one GPU must be told, and groups of both kinds of memory.

    python tests/gpu/mixed_and_errors.py

Checks, each `ok` or what went wrong:

- `one call`: host and device memory in one call is a ConfigError; no op has begun.
- `out of memory`: both take the device's memory until 1 MiB cannot be had. An op from device to
  device then goes through the host; an op that needs device memory fails before it has begun, with
  the number of bytes; afterwards all is as before.
- `nothing leaked`: device memory, pinned memory and shared memory are what they were.
- `across ranks`: device memory here and host memory there is a ProtocolError on every rank.
- `mixed group`: `cpu:holdfast,cuda:holdfast` serves tensors of both, at once; needs a torch that
  has CUDA, and is `not run` without.

"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import world

LIMIT_S = 120.0
MIB = 1 << 20
REPEATS = 8
# What a driver's pool may or may not have given back by now: what two ranks pack. An array that
# leaks is more after REPEATS.
SLACK_ARRAYS = 5
SLACK_BYTES = 8 * MIB


@contextlib.contextmanager
def refused(error: type[Exception], text: str) -> Iterator[None]:
    """Require an error that says this."""
    try:
        yield
    except error as told:
        assert re.search(text, str(told)), f"{error.__name__} says {told}; wanted: {text}"
        return
    raise AssertionError(f"no {error.__name__} with {text}")


def free_bytes() -> int:
    """Return what the device has left, as the driver says when asked for too much."""
    from gpu_array import staged

    import holdfast
    from holdfast import _core

    try:
        _core.DeviceMemory(staged(), 1 << 50)
    except holdfast.HoldfastError as error:
        found = re.search(r"of which (\d+) bytes", str(error))
        assert found, error
        return int(found.group(1))
    raise AssertionError("a device gave 1 PiB")


def take_all() -> list[Any]:
    """Take device memory, and what its pool keeps, until not one MiB is left."""
    from gpu_array import staged

    import holdfast
    from holdfast import _core

    taken: list[Any] = []
    for of_no_pool in (True, False):
        size = 1 << 36
        while size >= MIB:
            try:
                taken.append(_core.DeviceMemory(staged(), size, of_no_pool))
            except holdfast.HoldfastError:
                size //= 2
    return taken


def one_call(group: Any) -> None:
    from gpu_array import GpuArray

    import holdfast

    host, device = np.ones(6, np.float32), GpuArray(np.ones(6, np.float32))
    with refused(holdfast.ConfigError, "host's memory, another array in a GPU's"):
        group.all_gather([host, device], device)
    group.all_reduce(device)
    assert (device.get() == group.size).all()


def reduce_right(group: Any, array: Any, own: Any) -> None:
    """See an all_reduce of what rank r has r + 1 of."""
    array.write(own)
    work = group.all_reduce(array, async_op=True)
    work.wait(60)
    assert not work.outcome.missing, f"the other rank has ended: {work.outcome}"
    wrong = int((array.get() != group.size * (group.size + 1) // 2).sum())
    assert wrong == 0, f"{wrong} of {own.size} elements of an all_reduce are wrong"


def out_of_memory(group: Any) -> None:
    """Both take what there is, then do what needs more."""
    from gpu_array import GpuArray

    import holdfast

    count = int(os.environ["BYTES"]) // 4
    own = np.full(count, group.rank + 1, np.int32)
    array = GpuArray(own, shared=True)
    # Two columns of four: packed first, in memory that is not there.
    wide = GpuArray(np.zeros(4 * count, np.int32), None, shape=(count, 2), strides=(16, 4))
    # The kernel that packs is loaded, which takes memory, too.
    group.all_reduce(wide)
    group.barrier()
    # Of a real device there is one; of the emulated one, each rank has its own.
    taken = take_all()
    group.barrier()
    for _ in range(REPEATS):
        reduce_right(group, array, own)
    with refused(holdfast.HoldfastError, r"\d+ bytes of device memory, of which \d+"):
        group.all_reduce(wide)
    group.barrier()
    taken.clear()
    group.barrier()
    for _ in range(REPEATS):
        reduce_right(group, array, own)
        group.all_reduce(wide)


def stays(group: Any, call: Any) -> dict[str, int]:
    """Return how much more memory of each kind there is in use after a second time than after one.

    The first call leaves what is kept for the next one.
    """
    from gpu_array import staged

    seen = []
    for _ in range(2):
        call(group)
        gc.collect()  # errors hold the frames whose arrays are to go
        group.barrier()
        seen.append((-free_bytes(), staged().pinned_bytes, staged().scratch_bytes))
        group.barrier()
    names = ("device", "pinned", "scratch")
    return {name: b - a for name, a, b in zip(names, *seen, strict=True)}


def errors_of_groups() -> None:
    """All checks of a `Group`; a rank."""
    from gpu_array import GpuArray

    import holdfast

    checks: dict[str, str] = {}
    group = holdfast.init()
    # Which path there is, is found out first.
    for _ in range(5):
        group.all_reduce(GpuArray(np.ones(1 << 19), shared=True))

    def check(name: str, call: Any) -> Any:
        try:
            result = call()
        except Exception as error:
            checks[name] = f"{type(error).__name__}: {error}"
            raise
        finally:
            world.tell(checks)
        checks[name] = "ok"
        return result

    check("one call", lambda: one_call(group))
    grown = check("out of memory", lambda: stays(group, out_of_memory))
    checks["direct ops"] = str(world.ops("direct"))

    def leaked_nothing() -> None:
        for name, size in grown.items():
            most = SLACK_BYTES + SLACK_ARRAYS * int(os.environ["BYTES"])
            assert size <= most, f"{size} bytes more {name} memory in use"

    check("nothing leaked", leaked_nothing)

    def across_ranks() -> None:
        values = np.ones(1000, np.float32)
        with refused(holdfast.ProtocolError, "in device memory"):
            group.all_reduce(GpuArray(values) if group.rank == 1 else values)

    check("across ranks", across_ranks)
    world.tell(checks)


def mixed_group() -> None:
    """Tensors of the CPU and of CUDA in one process group, in turns and at once; a rank."""
    import torch
    import torch.distributed as dist

    rank, ranks = world.join_torch("cpu:holdfast,cuda:holdfast")
    total = sum(range(1, ranks + 1))
    for count in (1, 1000, 3_000_001):
        tensors = [
            torch.full((count,), rank + 1.0, device=device) for device in ("cpu", "cuda", "cpu")
        ]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
        for tensor in tensors:
            assert bool((tensor == total).all()), (count, tensor.device)
        gathered = [torch.zeros(count, device="cuda") for _ in range(ranks)]
        dist.all_gather(gathered, torch.full((count,), float(rank), device="cuda"))
        assert [int(block[0]) for block in gathered] == list(range(ranks))
        spread = torch.full((count,), float(rank))
        dist.broadcast(spread, src=ranks - 1)
        assert bool((spread == ranks - 1).all())
    dist.destroy_process_group()


def run_groups(given: Any) -> dict[str, str]:
    """Return what the ranks say of each check; the first that is not ok counts."""
    from ranks import finish, segments_of

    env = world.environment(given.driver, BYTES=str(given.bytes))
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            world.start("mixed_and_errors", "errors_of_groups", r, 2, Path(folder), env)
            for r in range(2)
        ]
        outcomes = finish(ranks, given.limit)
    names = ("one call", "out of memory", "nothing leaked", "across ranks")
    checks = dict.fromkeys(names, "not reached")
    ended = [f"rank {o.rank} with {o.status}" for o in outcomes if o.status != 0]
    if ended:
        checks["ranks ended"] = ", ".join(ended)
    for outcome in outcomes:
        told = (world.told(outcome) or [{}])[-1]
        checks["direct ops"] = told.get("direct ops", "0")
        for name in names:
            if checks[name] in ("ok", "not reached"):
                checks[name] = told.get(name, checks[name])
        if outcome.status != 0:
            print(outcome.output, file=sys.stderr)
    left = segments_of(outcomes)
    if left and checks["nothing leaked"] == "ok":
        checks["nothing leaked"] = f"shared memory: {sorted(left)}"
    return checks


def run_mixed(given: Any) -> str:
    """Return how the group of both kinds went."""
    if given.driver == "emulated" or not world.torch_has_cuda():
        return "not run: no torch that has CUDA and sees the device"
    try:
        world.run("mixed_and_errors", "mixed_group", 2, given.limit, **world.environment(""))
    except AssertionError as error:
        print(error, file=sys.stderr)
        return str(error).strip().splitlines()[-1]
    return "ok"


def main() -> int:
    """Check, and print a line."""
    parser = world.arguments_of(__doc__, LIMIT_S)
    parser.add_argument("--bytes", type=int, default=32 * MIB, help="of an array (32 MiB)")
    given = parser.parse_args()
    if world.lacks(given.driver):
        return world.LACKS
    row = {"name": "mixed and errors", "device": world.device_name(given.driver)}
    checks = {**run_groups(given), "mixed group": run_mixed(given)}
    print(json.dumps({**row, "direct_ops": int(checks.pop("direct ops")), "checks": checks}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
