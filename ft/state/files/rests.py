"""Pickled rests of files, read with or without trust.

Unpickling runs what a pickle names. A command that reads files from wherever takes containers,
numbers, texts, arrays and tensors alone, unless it is told that they may be trusted.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from holdfast.errors import ConfigError
from holdfast.ft.state.layout.dtypes import ITEM_BYTES

# Nothing of these runs code of others.
_PLAIN = {
    "builtins": {"complex", "set", "frozenset", "bytearray", "slice", "range"},
    "collections": {"OrderedDict"},
    "_codecs": {"encode"},
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.numeric": {"_frombuffer"},
    "torch": {"Size", "device"},
    "holdfast.ft.state.layout.leaf": {"Leaf", "Packed", "Part"},
}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()) or (module == "torch" and name in ITEM_BYTES):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def loaded(data: bytes, what: str, trust: bool = False) -> Any:
    """Return what was pickled.

    Parameters
    ----------
    data : bytes
        The pickle.
    what : str
        For messages.
    trust : bool
        Whether anything may be in it.

    Raises
    ------
    ConfigError
        For a class that is not plain, without trust; for damaged bytes.
    """
    try:
        return pickle.loads(data) if trust else _Plain(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise ConfigError(
            f"{what}: its rest has {error}; accepted: containers, numbers, texts and arrays; "
            "--trust reads it, and runs what whoever wrote it put there"
        ) from None
    except Exception as error:
        raise ConfigError(f"{what}: its rest cannot be read: {error}") from None
