"""Hosts on one machine, as network namespaces at a switch, with links that can be made bad.

Rates are shaped by the kernel's token buckets (`tc`), losses come from its packet filter (`nft`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


def _run(*command: str) -> str:
    """Standard error of a command; empty when it succeeded."""
    done = subprocess.run(command, capture_output=True, timeout=20, check=False, text=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


class Unavailable(Exception):
    """This machine cannot emulate a network; the text says why."""


class Network:
    """Some hosts at a switch, with addresses kept for tests (RFC 5737), or for texts (RFC 3849).

    `ipv6`: they have no others. `with` makes it and removes it; Unavailable where the system does
    not let us.
    """

    def __init__(self, hosts: int, *, ipv6: bool = False) -> None:
        self.ipv6 = ipv6
        self.switch = f"hfd{os.getpid()}s"
        self.hosts = [f"hfd{os.getpid()}{chr(97 + i)}" for i in range(hosts)]
        self._slow: set[tuple[int, int]] = set()

    def address(self, host: int) -> str:
        return f"2001:db8::{host + 1}" if self.ipv6 else f"203.0.113.{host + 1}"

    def endpoint(self, host: int, port: int) -> str:
        """An address and a port, as options have them."""
        return f"[{self.address(host)}]:{port}" if self.ipv6 else f"{self.address(host)}:{port}"

    @property
    def gateway(self) -> str:
        """The switch's own address."""
        return "2001:db8::fe" if self.ipv6 else "203.0.113.254"

    def _assign(self, at: Sequence[str], address: str, device: str) -> None:
        # A new address of IPv6 is first asked for.
        more = ("/64", "nodad") if self.ipv6 else ("/24",)
        one = (f"{address}{more[0]}", "dev", device, *more[1:])
        self._must("an address", *at, "address", "add", *one)

    def _route(self, at: Sequence[str], target: str, via: str) -> None:
        family = ("-6",) if self.ipv6 else ()
        self._must("routes", *at, *family, "route", "add", target, "via", via)

    def inside(self, host: int) -> tuple[str, ...]:
        """A command that runs the rest of its arguments on a host."""
        return ("ip", "netns", "exec", self.hosts[host])

    def outside(self) -> tuple[str, ...]:
        """The same at the switch, from where all hosts are reached."""
        return ("ip", "netns", "exec", self.switch)

    def __enter__(self) -> Network:
        for tool in ("ip", "tc", "nft"):
            if shutil.which(tool) is None:
                raise Unavailable(f"waits for {tool} (Debian packages iproute2, nftables)")
        try:
            for space in [self.switch, *self.hosts]:
                self._must("the right to make namespaces", "ip", "netns", "add", space)
            self._must(
                *("bridges", "ip", "-n", self.switch, "link", "add", "switch", "type", "bridge")
            )
            at_switch = ("ip", "-n", self.switch)
            self._assign(at_switch, self.gateway, "switch")
            self._must("a switch", *at_switch, "link", "set", "switch", "up")
            self._must("a switch", *at_switch, "link", "set", "lo", "up")
            for host in range(len(self.hosts)):
                self._plug(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for space in [*self.hosts, self.switch]:
            _run("ip", "netns", "delete", space)
            shutil.rmtree(Path("/etc/netns") / space, ignore_errors=True)

    def _must(self, what: str, *command: str) -> None:
        if trouble := _run(*command):
            raise Unavailable(f"waits for {what}: {' '.join(command)}: {trouble}")

    def _plug(self, host: int) -> None:
        space = self.hosts[host]
        self._must(
            *("cables", "ip", "link", "add", "eth", "netns", space, "type", "veth"),
            *("peer", "name", f"port{host}", "netns", self.switch),
        )
        port = ("ip", "-n", self.switch, "link", "set", f"port{host}", "master", "switch", "up")
        self._must("a port", *port)
        here = ("ip", "-n", space)
        self._assign(here, self.address(host), "eth")
        self._must("a cable", *here, "link", "set", "eth", "up")
        self._must("loopback", *here, "link", "set", "lo", "up")

    def _shape(self, space: Sequence[str], device: str, mbit: float) -> None:
        bucket = ("tbf", "rate", f"{mbit}mbit", "burst", "32kb", "latency", "400ms")
        self._must(
            "token buckets", *space, "tc", "qdisc", "replace", "dev", device, "root", *bucket
        )

    def congestion_control(self, name: str) -> None:
        """What TCP goes by in connections of the hosts that are made from now on."""
        for host in range(len(self.hosts)):
            setting = ("sysctl", "-qw", f"net.ipv4.tcp_congestion_control={name}")
            self._must(f"TCP's {name}", *self.inside(host), *setting)

    def pull_cable(self, host: int) -> None:
        """Nothing comes to the host or leaves it any more, and nobody is told."""
        self._must("cables", "ip", "-n", self.switch, "link", "set", f"port{host}", "down")

    def plug_cable(self, host: int) -> None:
        self._must("cables", "ip", "-n", self.switch, "link", "set", f"port{host}", "up")

    def name(self, host: int, name: str) -> None:
        """Where the name leads from now on, for what runs inside of hosts; before any has begun."""
        for space in self.hosts:
            table = Path("/etc/netns") / space / "hosts"
            table.parent.mkdir(parents=True, exist_ok=True)
            # In place: the kernel shows this very file where /etc/hosts is looked for.
            table.write_text(f"127.0.0.1 localhost\n{self.address(host)} {name}\n")

    def slow_sender(self, host: int, mbit: float) -> None:
        """What leaves the host is slow."""
        self._shape(self.inside(host), "eth", mbit)

    def slow_receiver(self, host: int, mbit: float) -> None:
        """What comes to the host is slow."""
        self._shape(self.outside(), f"port{host}", mbit)

    def even_cable(self, host: int, mbit: float) -> None:
        """What leaves the host, and what comes to it, has one rate, from the first byte on."""
        self._even(self.inside(host), "eth", mbit)
        self._even(self.outside(), f"port{host}", mbit)

    def _even(self, space: Sequence[str], device: str, mbit: float) -> None:
        # A token bucket lets its first 32 KiB pass; a smaller bucket waits for the kernel's timers.
        rate = ("htb", "rate", f"{mbit}mbit", "burst", "1500", "cburst", "1500", "quantum", "60000")
        at = ("dev", device)
        for command in (
            ("qdisc", "replace", *at, "root", "handle", "1:", "htb", "default", "1"),
            ("class", "replace", *at, "parent", "1:", "classid", "1:1", *rate),
        ):
            self._must("classes of traffic", *space, "tc", *command)

    def slow_link(self, sender: int, receiver: int, mbit: float) -> None:
        """What goes from one host to one other is slow; of each sender one link may be."""
        tc = (*self.inside(sender), "tc")
        classes = ("parent", "1:", "classid")
        if (sender, receiver) in self._slow:
            change = ("class", "change", "dev", "eth", "parent", "1:", "classid", "1:2", "htb")
            self._must("classes of traffic", *tc, *change, "rate", f"{mbit}mbit")
            return
        self._slow.add((sender, receiver))
        commands: list[tuple[str, ...]] = [
            ("qdisc", "add", "dev", "eth", "root", "handle", "1:", "htb", "default", "1"),
            ("class", "add", "dev", "eth", *classes, "1:1", "htb", "rate", "10gbit"),
            ("class", "add", "dev", "eth", *classes, "1:2", "htb", "rate", f"{mbit}mbit"),
            (
                *("filter", "add", "dev", "eth", "parent", "1:", "protocol", "ip", "prio", "1"),
                *("u32", "match", "ip", "dst"),
                *(f"{self.address(receiver)}/32", "flowid", "1:2"),
            ),
        ]
        for command in commands:
            self._must("classes of traffic", *tc, *command)

    def lossy_link(self, sender: int, receiver: int, percent: int) -> None:
        """Some of what goes from one host to one other is lost."""
        rules = (
            "table netdev loss { chain arrivals { "
            'type filter hook ingress device "eth" priority 0; '
            f"ip saddr {self.address(sender)} numgen random mod 100 < {percent} drop; }}; }}"
        )
        self._must("a packet filter", *self.inside(receiver), "nft", rules)
