"""What both directions call things, in files of torch's checkpoints."""

from __future__ import annotations

import os

from holdfast.errors import ConfigError
from holdfast.ft.state.files.schemes import place

# Names of what DCP gives as bytes; no tensor of a state dict begins so.
BYTES = "holdfast.bytes/"
# Of a manifest's code: how a flat state dict becomes a nested one.
PATHS = "paths"


def is_place(checkpoint_id: str | os.PathLike[str]) -> bool:
    """Return whether something is a place of files.

    Parameters
    ----------
    checkpoint_id : str
        A URL or path.
    """
    try:
        place(os.fspath(checkpoint_id))
    except ConfigError:
        return False
    return True
