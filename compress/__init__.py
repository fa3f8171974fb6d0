"""Gradient compression: reducers for DDP and FSDP2, and optimisers that communicate little.

A reducer averages gradients over ranks with fewer bytes; what it leaves out stays in a residual on
its rank and is sent later. Importing this package does not import torch; using a name does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.compress.apollo import Apollo
    from holdfast.compress.ddp import hook, local_gradients, register
    from holdfast.compress.demo import DeMo
    from holdfast.compress.exchange import (
        Alone,
        CompressedMean,
        Exchange,
        Pending,
        ProcessGroupExchange,
        Reduction,
    )
    from holdfast.compress.galore import GaLore
    from holdfast.compress.group_exchange import GroupExchange
    from holdfast.compress.onebit import OneBit
    from holdfast.compress.onebit_adam import OneBitAdam
    from holdfast.compress.onebit_lamb import OneBitLamb
    from holdfast.compress.onebit_mean import OneBitMean
    from holdfast.compress.optimizer import CompressedOptimizer
    from holdfast.compress.powersgd import PowerSGD
    from holdfast.compress.reducer import Reducer
    from holdfast.compress.residuals import Residuals
    from holdfast.compress.topk import TopK
    from holdfast.compress.zero_one_adam import ZeroOneAdam

__all__ = [
    "Alone",
    "Apollo",
    "CompressedMean",
    "CompressedOptimizer",
    "DeMo",
    "Exchange",
    "GaLore",
    "GroupExchange",
    "OneBit",
    "OneBitAdam",
    "OneBitLamb",
    "OneBitMean",
    "Pending",
    "PowerSGD",
    "ProcessGroupExchange",
    "Reducer",
    "Reduction",
    "Residuals",
    "TopK",
    "ZeroOneAdam",
    "hook",
    "local_gradients",
    "register",
]

_ON_FIRST_USE = {
    "GroupExchange": "group_exchange",
    "Reduction": "exchange",
    "Apollo": "apollo",
    "GaLore": "galore",
    "DeMo": "demo",
    "TopK": "topk",
    "CompressedOptimizer": "optimizer",
    "local_gradients": "ddp",
    "ZeroOneAdam": "zero_one_adam",
    "OneBitLamb": "onebit_lamb",
    "OneBitAdam": "onebit_adam",
    "Alone": "exchange",
    "CompressedMean": "exchange",
    "Exchange": "exchange",
    "OneBit": "onebit",
    "OneBitMean": "onebit_mean",
    "Pending": "exchange",
    "PowerSGD": "powersgd",
    "ProcessGroupExchange": "exchange",
    "Reducer": "reducer",
    "Residuals": "residuals",
    "hook": "ddp",
    "register": "ddp",
}


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
