"""An address that leads to whichever of several servers is meant, as a moving address does."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

_BYTES = 1 << 16


class Switch:
    """Listens on a port of its own; each connection goes on to the first server that answers."""

    def __init__(self, *ports: int) -> None:
        self._lock = threading.Lock()
        self._ports = list(ports)
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def turn(self, *ports: int) -> None:
        """Lead to these from now on, and end what leads to others."""
        with self._lock:
            self._ports = list(ports)
            ended, self._open = self._open, set()
        for one in ended:
            _end(one)

    def close(self) -> None:
        """Lead nowhere."""
        _end(self._listener)
        self._listener.close()
        self.turn()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            server = self._reach()
            if server is None:
                caller.close()
                continue
            for one in (caller, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {caller, server}
            threading.Thread(target=self._pass_on, args=(caller, server), daemon=True).start()

    def _reach(self) -> socket.socket | None:
        with self._lock:
            ports = list(self._ports)
        for port in ports:
            try:
                return socket.create_connection(("127.0.0.1", port), 5)
            except OSError:
                continue
        return None

    def _pass_on(self, caller: socket.socket, server: socket.socket) -> None:
        other = {caller: server, server: caller}
        with caller, server, contextlib.suppress(OSError):
            while True:
                for source in select.select(list(other), [], [])[0]:
                    data = source.recv(_BYTES)
                    if not data:
                        raise ConnectionResetError
                    other[source].sendall(data)
        with self._lock:
            self._open -= {caller, server}


def _end(one: socket.socket) -> None:
    """Wake whoever reads of it, here and at the other end."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
