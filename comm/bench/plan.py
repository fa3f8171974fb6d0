"""What is measured: collectives, sizes, dtypes, and what bandwidth means for each.

References
----------
.. [1] NVIDIA, nccl-tests, "Performance reported by NCCL tests": algorithm and bus bandwidth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.errors import ConfigError

COLLECTIVES = (
    *("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"),
    *("gather", "scatter", "barrier", "send_recv", "all_to_allv"),
)
DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float8_e5m2", "complex64"),
)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LARGEST = 1 << 34


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    size : int
        Bytes, as nccl-tests count them: of the whole vector; for all_gather, gather and
        reduce_scatter, scatter of all ranks' blocks together; for all_to_allv what each rank sends.
    dtype : str
        One of `DTYPES`.
    """

    collective: str
    size: int
    dtype: str


def parse_size(text: str) -> int:
    """Return a number of bytes, from text like ``4``, ``64K``, ``1M``, ``2MiB``."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 0 < size <= _LARGEST:
        raise ConfigError(f"size {text!r}; accepted: 1 to 16G, as in 4, 64K, 1M")
    return size


def sizes_between(least: int, most: int, factor: int) -> tuple[int, ...]:
    """Return `least`, `least` * `factor`, ... up to `most`."""
    if least > most or factor < 2:
        raise ConfigError(
            f"sizes from {least} to {most} by {factor}; accepted: a factor of at least 2, "
            "the largest size not below the smallest"
        )
    sizes = [least]
    while sizes[-1] * factor <= most:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def ranks(argument: str, text: str, least: int = 2) -> list[int]:
    """Return numbers of ranks, `least` or more, from text like ``2,4``."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < least or max(numbers) > 1024:
        raise ConfigError(
            f"{argument} {text!r}; accepted: numbers from {least} to 1024, with commas"
        )
    return numbers


def chosen(argument: str, text: str, accepted: tuple[str, ...]) -> tuple[str, ...]:
    """Split a list with commas and refuse what is not accepted; ``all`` means everything."""
    if text == "all":
        return accepted
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in accepted]
    if unknown or not names:
        raise ConfigError(f"{argument} {text!r}; accepted: all, {', '.join(accepted)}")
    return names


def bus_factor(collective: str, ranks: int) -> float:
    """Return bus bandwidth by algorithm bandwidth, after nccl-tests [1]_."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("broadcast", "reduce", "send_recv"):
        return 1.0
    return (ranks - 1) / ranks
