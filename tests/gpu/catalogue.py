"""The rows of docs/evidence/gpu-results.md, in its order.

`first` is the order in which they are run: what tells most in the least time. On one GPU those of
up to 5 are expected to take eight minutes, all of them twenty.

Why: docs/decisions/0107-what-needs-a-gpu-is-a-catalogue.md
"""

from __future__ import annotations

import readings
from row import Command, Row

REAL = "HOLDFAST_TEST_CUDA_DRIVER="
EMULATED = "HOLDFAST_TEST_CUDA_DRIVER=emulated"
NATIVE = "build/native/tests/native"
AS_EMULATED = "as over the emulated device"
ON_EMULATED = "--driver emulated"
ON_CPU = f"--device cpu {ON_EMULATED}"
SMALL_WORLD = f"{ON_EMULATED} --ranks 3 --worlds 1"
TOOLS = "memcheck,racecheck,initcheck,synccheck"


def command(line: str) -> Command:
    """Return the words of a line that quotes none."""
    return tuple(line.split())


def tests(driver: str, file: str, only: str) -> Command:
    """Return a command for tests of a file; `only`: an expression, empty for all of them."""
    select = ("-k", only) if only else ()
    return (driver, "python", "-m", "pytest", f"tests/python/{file}", *select)


def program(line: str) -> Command:
    """Return a command for a program of tests/gpu."""
    return command(f"python tests/gpu/{line}")


RATES = command(f"{NATIVE}/device_rates")
RATES_SMALL = command(f"{NATIVE}/device_rates 65536 emulated")
PATHS_SMALL = command(
    f"python tests/bench/device_paths.py --ranks 2 --sizes 65536,1048576 {ON_EMULATED}"
)


def checked(
    name: str, what: str, asked: str, first: int, select: tuple[str, str, str], *needs: str
) -> Row:
    """Return a row of tests; `select`: file, expression on a GPU, expression of a rehearsal."""
    file, only, rehearse = select
    return Row(
        *(name, what, asked, first),
        commands=(tests(REAL, file, only),),
        rehearsal=(tests(EMULATED, file, rehearse),) if rehearse else (),
        read=readings.tests,
        limit_s=240,
        needs=("pytest", *needs),
    )


def ddp(ranks: int) -> Row:
    """Return the row of DDP with so many ranks."""
    return Row(
        f"ddp-{ranks}",
        f"{ranks} ranks on one GPU: DDP on CUDA tensors",
        "equals the CPU run",
        first=3,
        commands=(program(f"ddp_equals_cpu.py --ranks {ranks}"),),
        rehearsal=(program(f"ddp_equals_cpu.py {ON_CPU} --steps 3"),),
        read=readings.ddp,
        limit_s=200,
        needs=("torch_cuda",),
    )


def rates(name: str, what: str, *beginnings: str) -> Row:
    """Return a row that device_rates has figures for."""
    return Row(
        *(name, what, ">= 80 % of the measured copy bandwidth of the device"),
        first=2,
        commands=(RATES,),
        rehearsal=(RATES_SMALL,),
        read=readings.rates(beginnings, 0.8),
        limit_s=120,
        is_timed=True,
    )


ROWS: tuple[Row, ...] = (
    Row(
        "parity",
        "parity of every kernel with its CPU reference: random, odd sizes, special values",
        "the same bits; any NaN for a NaN where "
        "[kernels.md](../internals/kernels.md#the-same-bits) says so",
        first=1,
        commands=(program("native_tests.py"),),
        rehearsal=(program(f"native_tests.py {ON_EMULATED} --tests kernels,memory"),),
        read=readings.native,
        limit_s=120,
    ),
    Row(
        "sanitizer",
        f"the same under compute-sanitizer ({TOOLS.replace(',', ', ')})",
        "clean",
        first=9,
        commands=(program(f"native_tests.py --tools {TOOLS}"),),
        rehearsal=(),
        read=readings.native,
        limit_s=330,
        needs=("sanitizer",),
    ),
    rates("reduce", "reduce kernels, bytes read and written by time", "sum of"),
    rates("codecs", "codec kernels, likewise", "encode", "decode"),
    rates("pack", "pack and unpack kernels, likewise", "pack", "unpack"),
    checked(
        *("sync-torch", "`group.sync` of CUDA tensors", "equals the CPU run", 5),
        *(("devices/test_torch_cuda.py", "sync", ""), "torch_cuda"),
    ),
    checked(
        *("sync", "`group.sync` of arrays of the driver's memory", AS_EMULATED, 6),
        ("devices/test_device_sync.py", "", "what_made_the_state"),
    ),
    Row(
        "state-hash",
        "state hash of 1 GiB of device memory",
        ">= 50 % of the copy bandwidth",
        first=4,
        commands=(command(f"{NATIVE}/device_rates 1073741824"),),
        rehearsal=(RATES_SMALL,),
        read=readings.rates(("state hash",), 0.5),
        limit_s=180,
        is_timed=True,
    ),
    checked(
        *("futures", "Futures of torch's works on streams", AS_EMULATED, 5),
        *(("devices/test_torch_cuda.py", "collectives", ""), "torch_cuda"),
    ),
    checked(
        *("c", "the C interface on device memory", AS_EMULATED, 3),
        *(("c/test_c_devices.py", "", "cannot_be_done"), "cc"),
    ),
    checked(
        *("mpi", "MPI programs on device memory: messages, collectives, packing, losses"),
        *(AS_EMULATED, 3, ("mpi/test_mpi_devices.py", "", "which_ranks"), "cc"),
    ),
    checked(
        *("gaps-torch", "collectives on tensors that are not contiguous"),
        *(
            "the bits of the CPU run",
            5,
            ("devices/test_torch_cuda.py", "collectives", ""),
            "torch_cuda",
        ),
    ),
    *(ddp(2), ddp(4), ddp(8)),
    Row(
        "ipc",
        "all_reduce of 256 MiB by CUDA IPC, 2 and 4 ranks on one GPU",
        ">= 60 % of the copy bound (`of_copy_bound` >= 0.6)",
        first=2,
        commands=(command("python tests/bench/device_paths.py --ranks 2,4 --sizes 268435456"),),
        rehearsal=(PATHS_SMALL,),
        read=readings.ipc_rate(0.6),
        limit_s=150,
        is_timed=True,
    ),
    Row(
        "ipc-from",
        "from which size on it beats the path through the host (`ratio` > 1): default of "
        "`cuda_ipc_min_bytes`",
        "1 MiB, a guess",
        first=4,
        commands=(
            command(
                "python tests/bench/device_paths.py --ranks 2,4,8 "
                "--sizes 262144,1048576,4194304,16777216"
            ),
        ),
        rehearsal=(PATHS_SMALL,),
        read=readings.ipc_from,
        limit_s=150,
        is_timed=True,
    ),
    checked(
        *("direct", "every collective from device to device, losses", AS_EMULATED, 6),
        ("devices/test_gpu_direct.py", "", "mappings"),
    ),
    checked(
        *("coded", "collectives with a codec whose frames the device makes, losses"),
        *(AS_EMULATED, 6, ("devices/test_gpu_coded.py", "", "the_option_codec")),
    ),
    checked(
        *("levels", "collectives in two levels, hosts that are played, losses", AS_EMULATED, 6),
        ("devices/test_gpu_levels.py", "", "crosses_once"),
    ),
    checked(
        *("staged", "every collective through the host, arrays with gaps, losses", AS_EMULATED, 6),
        ("devices/test_gpu_paths.py", "", "streams_wait"),
    ),
    Row(
        "overlap",
        "overlap: of min(compute, communication), hidden",
        ">= 85 %",
        first=4,
        commands=(program("overlap.py --ranks 2"),),
        rehearsal=(program(f"overlap.py {ON_CPU} --paths auto --bytes 262144 --side 64"),),
        read=readings.overlap(0.85),
        limit_s=200,
        needs=("torch_cuda",),
        is_timed=True,
    ),
    checked(
        *("host-tensor", "`HostTensor`: rows read by the device", AS_EMULATED, 3),
        ("devices/test_host_tensor.py", "on_the_device or real_gpu", "beside_the_current"),
        "torch",
    ),
    Row(
        "gather",
        "`HostTensor` gather against `tensor[idx]` on the CPU and a copy",
        ">= 1.5 times as fast",
        first=4,
        commands=(program("host_tensor_gather.py"),),
        rehearsal=(
            program(
                f"host_tensor_gather.py {ON_EMULATED} --rows 5000 --columns 32 --numbers 500 "
                "--rounds 3"
            ),
        ),
        read=readings.gather(1.5),
        limit_s=120,
        is_timed=True,
    ),
    Row(
        "kill",
        "kill -9 of a rank while kernels run",
        "survivors' contexts stay usable",
        first=3,
        commands=(program("kill_with_kernels.py"), program("kill_with_kernels.py --ipc off")),
        rehearsal=(
            program(f"kill_with_kernels.py {SMALL_WORLD} --bytes 1048576"),
            program(f"kill_with_kernels.py {SMALL_WORLD} --bytes 65536 --ipc off"),
        ),
        read=readings.kills,
        limit_s=300,
    ),
    Row(
        "errors",
        "mixed groups (`cpu:holdfast,cuda:holdfast`), devices that differ, out of device memory",
        "clear errors, nothing leaked",
        first=3,
        commands=(program("mixed_and_errors.py"),),
        rehearsal=(program(f"mixed_and_errors.py {ON_EMULATED} --bytes 1048576"),),
        read=readings.checks,
        limit_s=200,
    ),
)
