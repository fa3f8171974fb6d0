"""``holdfast bench --codec``: what a codec saves on the wire, and costs in time and accuracy.

As a module, ``python -m holdfast.comm.bench.codecs CONFIG RANK SIZE``: one rank of it. Bytes are
those that the links counted, headers included. The data is Gaussian, another on each rank; bytes
(uint8) are words of a made-up language, for codecs that look for repetitions.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import holdfast
from holdfast import __version__, _core, _process
from holdfast.comm.bench.meeting import meeting, slowest
from holdfast.comm.bench.plan import Case
from holdfast.comm.bench.report import Entry, size_text
from holdfast.compress.codec import LOSSLESS
from holdfast.errors import ConfigError
from holdfast.options import Options

HEADER = (
    f"{'ranks':>5} {'collective':<14} {'size':>6} {'contestant':<22} {'time us':>10} "
    f"{'wire bytes':>11} {'fewer x':>8} {'faster x':>8} {'error %':>8} {'encode':>7} {'decode':>7}"
)
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
_SENT = re.compile(r'^holdfast_link_bytes_total\{[^}]*direction="sent"[^}]*\} (\S+)', re.MULTILINE)

if TYPE_CHECKING:
    import torch

# Torch's name of each dtype that is measured: the runtime's.
DTYPES = {"float32": "f32", "bfloat16": "bf16", "uint8": "u8"}
# What does not add anything up.
MOVING = ("all_gather", "broadcast", "all_to_all")
# Most words are a few of these, as in any language.
_WORDS = 4000
_ZIPF = 1.3


@dataclass(slots=True)
class Row(Entry):
    """One codec in one case; medians.

    Parameters
    ----------
    ranks, collective, size, dtype, name
        As in :class:`holdfast.comm.bench.report.Entry`.
    seconds : float
        The slowest rank's.
    wire_bytes : float
        Sent by a rank, on the average; 0 for others than Holdfast.
    error : float
        Root mean square of the result's error by that of the exact result.
    encode, decode : float
        Rates in bytes of input, by that of memcpy; 0 without a codec.
    plain_bytes, plain_seconds : float
        The same of the uncompressed row.
    is_last : bool
        Whether the case has no further row.
    """

    seconds: float
    wire_bytes: float
    error: float
    encode: float
    decode: float
    plain_bytes: float = 0.0
    plain_seconds: float = 0.0
    is_last: bool = False

    def line(self) -> str:
        """Return it as a line of the table."""
        fewer = f"{self.plain_bytes / self.wire_bytes:.2f}" if self.wire_bytes else ""
        rates = [f"{rate:.2f}" if rate else "" for rate in (self.encode, self.decode)]
        return (
            f"{self.ranks:>5} {self.collective:<14} {size_text(self.size):>6} {self.name:<22} "
            f"{self.seconds * 1e6:>10.1f} {self.wire_bytes:>11.0f} {fewer:>8} "
            f"{self.plain_seconds / self.seconds:>8.2f} {self.error * 100:>8.3f} "
            f"{rates[0]:>7} {rates[1]:>7}"
        )

    def as_json(self) -> dict[str, object]:
        """Return what a program reads."""
        return {
            **self.identity(),
            "time_us": round(self.seconds * 1e6, 2),
            "wire_bytes": round(self.wire_bytes),
            "plain_bytes": round(self.plain_bytes),
            "plain_us": round(self.plain_seconds * 1e6, 2),
            "error": self.error,
            "encode_by_memcpy": round(self.encode, 3),
            "decode_by_memcpy": round(self.decode, 3),
            "version": __version__,
        }


@dataclass(frozen=True, slots=True)
class _Arrays:
    """What one case works on; `whole` is filled afresh before each call."""

    whole: torch.Tensor
    blocks: torch.Tensor
    part: torch.Tensor

    @classmethod
    def of(cls, data: torch.Tensor, ranks: int) -> _Arrays:
        each = max(1, data.numel() // ranks)
        whole = data[: each * ranks]
        return cls(whole.clone(), whole.clone(), whole[:each].clone())


def _data(rank: int, count: int, dtype: str) -> torch.Tensor:
    import torch

    chance = np.random.default_rng(rank)
    if dtype == "uint8":
        return torch.from_numpy(_text(chance, count))
    floats = torch.from_numpy(chance.standard_normal(count, dtype=np.float32))
    return floats.to(torch.bfloat16) if dtype == "bfloat16" else floats


def _text(chance: np.random.Generator, count: int) -> Any:
    language = np.random.default_rng(0)
    lengths = language.integers(1, 10, _WORDS)
    words = [bytes(language.integers(97, 123, n, dtype=np.uint8)) + b" " for n in lengths]
    parts, size = [], 0
    while size < count:
        for i in chance.zipf(_ZIPF, _WORDS) % _WORDS:
            parts.append(words[i])
            size += len(words[i])
    return np.frombuffer(b"".join(parts), np.uint8)[:count].copy()


def _call(group: holdfast.Group, collective: str, a: _Arrays, codec: str | None) -> torch.Tensor:
    """Run it once; the result's array."""
    if collective == "all_reduce":
        group.all_reduce(a.whole, op="avg", codec=codec)
        return a.whole
    if collective == "reduce_scatter":
        group.reduce_scatter(a.part, a.blocks, op="avg", codec=codec)
        return a.part
    if collective == "all_gather":
        group.all_gather(a.whole, a.part, codec=codec)
        return a.whole
    if collective == "broadcast":
        group.broadcast(a.whole, codec=codec)
        return a.whole
    group.all_to_all(a.whole, a.blocks, codec=codec)
    return a.whole


def _sent(options: Options) -> float:
    text = _process.node(options).metrics_text()
    return sum(float(found) for found in _SENT.findall(text))


def _rate(call: Callable[[], object], size: int) -> float:
    """Return `size` bytes by the seconds of the fastest of five calls."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return size / best


def _rates(codec: str, data: torch.Tensor, dtype: str) -> tuple[float, float]:
    """Return the codec's rates of encoding and decoding by that of a copy."""
    import torch

    values = data.view(torch.uint8).numpy()
    copy = np.empty_like(values)
    copying = _rate(lambda: np.copyto(copy, values), values.nbytes)
    # Into memory that is there, as in a collective: a fresh array costs more than coding.
    room = np.empty(4 * values.nbytes + 4096, np.uint8)  # of top-k with all elements
    encoding = _rate(lambda: _core.encode_bytes(room, codec, values, dtype), values.nbytes)
    frame = room[: _core.encode_bytes(room, codec, values, dtype)]
    decoding = _rate(lambda: _core.decode_bytes(copy, codec, frame, dtype), values.nbytes)
    return encoding / copying, decoding / copying


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    off, right = result.double() - exact, exact.square().mean()
    return float((off.square().mean() / right).sqrt())


def _measure(
    case: Case, group: holdfast.Group, options: Options, codecs: Sequence[str], rounds: int
) -> list[Row]:
    import torch
    import torch.distributed as dist

    ranks = group.size
    dtype = getattr(torch, case.dtype)
    names = [None, *codecs]
    data = _data(group.rank, max(ranks, case.size // dtype.itemsize), case.dtype)
    exact = _call(group, case.collective, _Arrays.of(data, ranks), None).double()
    times: dict[str | None, list[float]] = {name: [] for name in names}
    wire: dict[str | None, float] = {}
    errors: dict[str | None, float] = {}
    for _ in range(rounds):
        for codec in names:
            fresh = _Arrays.of(data, ranks)
            dist.barrier()
            before = _sent(options)
            began = time.perf_counter()
            result = _call(group, case.collective, fresh, codec)
            times[codec] += slowest([time.perf_counter() - began])
            wire[codec] = _mean(_sent(options) - before)
            errors[codec] = slowest([_error(result, exact)])[0]
    rows = []
    for codec in names:
        rates = _rates(codec, data, DTYPES[case.dtype]) if codec else (0.0, 0.0)
        name = f"{options.transports[0]}/{codec or case.dtype}"
        found = (statistics.median(times[codec]), wire[codec], errors[codec], *rates)
        plain = (wire[None], statistics.median(times[None]))
        at = (ranks, case.collective, case.size, case.dtype, name)
        rows.append(Row(*at, *found, *plain, codec == names[-1]))
    return rows


def _mean(value: float) -> float:
    import torch
    import torch.distributed as dist

    t = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(t)
    return float(t) / dist.get_world_size()


def _peer(case: Case, rank: int, ranks: int, rounds: int, plain: Row) -> Row | None:
    """Return gloo's row, in the cases that it has."""
    import torch
    import torch.distributed as dist

    if case.collective not in ("all_reduce", "broadcast"):
        return None
    times = []
    for _ in range(rounds):
        dtype = getattr(torch, case.dtype)
        data = _data(rank, max(1, case.size // dtype.itemsize), case.dtype)
        dist.barrier()
        began = time.perf_counter()
        if case.collective == "all_reduce":
            dist.all_reduce(data)
        else:
            dist.broadcast(data, 0)
        times += slowest([time.perf_counter() - began])
    at = (ranks, case.collective, case.size, case.dtype, f"gloo/{case.dtype}")
    taken = (statistics.median(times), 0.0, 0.0, 0.0, 0.0)
    return Row(*at, *taken, plain.plain_bytes, plain.plain_seconds, True)


def check_case(case: Case, codecs: Sequence[str]) -> None:
    """Refuse what the codecs do not take.

    Parameters
    ----------
    case : Case
        One row.
    codecs : sequence of str
        Their texts.

    Raises
    ------
    ConfigError
        Naming it, and what is accepted.
    """
    if case.collective not in COLLECTIVES:
        raise ConfigError(f"--codec takes -c {','.join(COLLECTIVES)}")
    if case.dtype not in DTYPES:
        raise ConfigError(f"--codec takes --dtypes {','.join(DTYPES)}")
    if case.dtype == "uint8" and case.collective not in MOVING:
        raise ConfigError(f"--codec with --dtypes uint8 takes -c {','.join(MOVING)}")
    for codec in codecs:
        name = codec.partition("(")[0]
        if name == "bfloat" and case.dtype != "bfloat16":
            raise ConfigError(f"--codec {codec} takes --dtypes bfloat16")
        if name not in LOSSLESS and case.dtype == "uint8":
            raise ConfigError(f"--codec {codec} takes --dtypes float32,bfloat16")


def main() -> int:
    """Run all cases; the arguments are the configuration's file, rank and size."""
    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    rank, ranks = int(sys.argv[2]), int(sys.argv[3])
    with meeting(config["folder"], rank, ranks), Path(config["rows"]).open("a") as file:
        for transport in config["transports"]:
            options = Options(transports=(transport,))
            store = f"file://{config['folder']}/groups"
            group = holdfast.init(store, rank, ranks, options=options, name=f"codec-{transport}")
            for collective, size, dtype in config["cases"]:
                case = Case(collective, size, dtype)
                rows = _measure(case, group, options, config["codecs"], config["rounds"])
                beside = "gloo" in config["peers"] and transport == config["transports"][-1]
                if beside and (row := _peer(case, rank, ranks, config["rounds"], rows[0])):
                    rows[-1].is_last = False
                    rows.append(row)
                if rank == 0:
                    file.writelines(json.dumps(astuple(row)) + "\n" for row in rows)
                    file.flush()
            group.barrier()
            group.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
