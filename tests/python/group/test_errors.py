"""The hierarchy of errors, and the errors of a start that cannot succeed."""

from __future__ import annotations

import pickle
import signal
import socket
import subprocess
import sys
import time

import pytest
from ports import held_port
from waiting import eventually

import holdfast
from holdfast import errors
from holdfast.comm.store import DirectoryStore

CLASSES = {
    "PeerLost": holdfast.PeerLost,
    "Timeout": holdfast.Timeout,
    "NotMember": holdfast.NotMember,
    "AuthFailed": holdfast.AuthFailed,
    "ProtocolError": holdfast.ProtocolError,
    "ConfigError": holdfast.ConfigError,
    "Aborted": holdfast.Aborted,
    "Unsupported": holdfast.Unsupported,
    "System": holdfast.SystemFailure,
}


@pytest.mark.parametrize("code", CLASSES)
def test_each_native_code_has_its_class(code):
    error = errors.from_status(code, "text", [1, 3], 7)
    assert type(error) is CLASSES[code]
    assert isinstance(error, holdfast.HoldfastError)
    assert isinstance(error, RuntimeError)
    assert (str(error), error.ranks, error.epoch) == ("text", (1, 3), 7)


def test_an_unknown_code_is_still_an_error_of_ours():
    assert type(errors.from_status("Later", "text", [], 0)) is holdfast.HoldfastError


def test_errors_are_also_what_python_calls_them():
    assert issubclass(holdfast.Timeout, TimeoutError)
    assert issubclass(holdfast.ConfigError, ValueError)


def test_errors_survive_the_way_between_processes():
    error = pickle.loads(pickle.dumps(holdfast.PeerLost("gone", (2,), 5)))
    assert (str(error), error.ranks, error.epoch) == ("gone", (2,), 5)


def join(method: str, rank: int = 0, size: int = 2, **options: object) -> holdfast.Group:
    return holdfast.init(
        method,
        rank=rank,
        size=size,
        options=holdfast.Options(**options),  # type: ignore[arg-type]
    )


def test_a_rank_that_never_comes_is_named_within_the_time_limit(tmp_path):
    start = time.monotonic()
    with pytest.raises(holdfast.Timeout, match="1, 2") as caught:
        join(tmp_path.as_uri(), size=3, connect_timeout=1.0)
    assert time.monotonic() - start < 5
    assert caught.value.ranks == (1, 2)
    assert "connect_timeout" in str(caught.value)


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(holdfast.SystemFailure, match=str(port)):
            join(tmp_path.as_uri(), size=1, address="127.0.0.1", port=port)


@pytest.mark.parametrize("address", ["192.0.2.1", "nonsense"])
def test_an_address_that_is_not_ours_is_named(address, tmp_path):
    with pytest.raises(holdfast.HoldfastError, match=address):
        join(tmp_path.as_uri(), size=1, address=address)


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(holdfast.SystemFailure, match="file"):
        join((tmp_path / "file" / "below").as_uri(), size=1)


@pytest.mark.parametrize(
    "method", ["bogus", "http://a", "file://relative", "tcp://host", "tcp://host:port", "tcp://:1"]
)
def test_a_method_that_cannot_be_used_is_refused_with_what_is_accepted(method):
    with pytest.raises(holdfast.ConfigError, match="accepted: env://"):
        join(method)


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_out_of_range_is_refused(rank, size, tmp_path):
    with pytest.raises(holdfast.ConfigError, match=f"rank {rank} of {size}"):
        join(tmp_path.as_uri(), rank, size)


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_ADDR"])
def test_what_the_launcher_did_not_set_is_named(missing, monkeypatch):
    for name in ("HOLDFAST_STORE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.delenv(missing, raising=False)
    with pytest.raises(holdfast.ConfigError, match=missing):
        holdfast.init()


def test_an_unreachable_store_is_a_timeout_that_names_it(unused_port):
    pytest.importorskip("torch", reason="waits for torch: a tcp:// store is torch's")
    with pytest.raises(holdfast.Timeout, match=f"127.0.0.1:{unused_port}.*connect_timeout"):
        join(f"tcp://127.0.0.1:{unused_port}", rank=1, connect_timeout=1.0)


@pytest.fixture
def unused_port() -> int:
    return held_port()


def test_without_torch_a_tcp_store_says_what_to_use_instead():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import holdfast\n"
        "try: holdfast.init('tcp://127.0.0.1:1', rank=0, size=1)\n"
        "except holdfast.ConfigError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "file:///" in done.stdout, done.stderr


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("store", ["file", "tcp"])
def test_ctrl_c_ends_the_wait_for_other_ranks(store, tmp_path, unused_port):
    if store == "tcp":
        pytest.importorskip("torch", reason="waits for torch: a tcp:// store is torch's")
    method = tmp_path.as_uri() if store == "file" else f"tcp://127.0.0.1:{unused_port}"
    # Jobs in the background of a shell inherit Ctrl-C ignored, and so would this one.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import holdfast; print('ready', flush=True)\n"
        f"holdfast.init({method!r}, rank=0, size=2)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    # What Ctrl-C should end is the wait for the other's card, after its own is in the store.
    eventually(lambda: listens(unused_port) if store == "tcp" else [*tmp_path.rglob("*card*")])
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 8  # a torch store hears it after five seconds at most
    assert process.returncode == -signal.SIGINT, errors
    assert "SystemFailure" not in errors


def test_a_store_whose_values_are_nonsense_is_a_protocol_error(tmp_path):
    class Nonsense(DirectoryStore):
        def get(self, key: str) -> bytes:
            return b"\xff\x00 nonsense"

    store = Nonsense(tmp_path)
    store.set("holdfast/default/1/card/1", b"x")
    with pytest.raises(holdfast.ProtocolError, match="rank 1"):
        holdfast.init(store=store, rank=0, size=2)


def test_a_store_that_breaks_is_a_system_failure(tmp_path):
    class Broken(DirectoryStore):
        def set(self, key: str, value: str | bytes) -> None:
            raise OSError("disk full")

    with pytest.raises(holdfast.SystemFailure, match="disk full"):
        holdfast.init(store=Broken(tmp_path), rank=0, size=2)
