"""Whether UCX's library is here; tests of the transport ``ucx`` wait for it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import _core

try:
    _core.look_at_transport("ucx")
    MISSING = ""
except holdfast.ConfigError as error:
    MISSING = str(error)

needs_ucx = pytest.mark.skipif(bool(MISSING), reason=f"waits for libucp: {MISSING}")
# The transport as a parameter of a test.
UCX = pytest.param("ucx", marks=needs_ucx)
