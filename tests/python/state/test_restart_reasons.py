"""Which errors have a restartable function called again: of a loss, or listed by the user."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="waits for torch: what is restarted trains with it")

from holdfast.errors import ConfigError, PeerLost
from holdfast.ft.state.restart import Restart, restartable


@pytest.mark.parametrize(
    "error",
    [
        PeerLost("rank 2 is gone"),
        # As DDP's backward raises it.
        RuntimeError("PeerLost: all_reduce #135 of group 0 failed: lost rank 1"),
        KeyError("a kind that the user lists"),
    ],
)
def test_a_loss_has_the_function_called_again(error: Exception) -> None:
    calls: list[Restart] = []

    @restartable(on=(KeyError,))
    def job(restart: Restart) -> str:
        calls.append(restart)
        if restart.number == 0:
            raise error
        return "done"

    assert job() == "done"
    assert [call.number for call in calls] == [0, 1]
    assert str(error) in calls[1].reason


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), ConfigError("bad"), OSError("x")])
def test_what_is_no_loss_passes(error: Exception) -> None:
    @restartable
    def job(restart: Restart) -> None:
        raise error

    with pytest.raises(type(error)):
        job()
