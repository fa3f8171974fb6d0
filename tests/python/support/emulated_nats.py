"""Networks behind NATs on one machine: hosts that can call the public ones and be called by nobody.

As `emulated_network`, whose switch is the public side; its first hosts are NATs, each with one
private host behind it. Masquerading is the kernel's (`nft`).
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

from emulated_network import Network, Unavailable, _run

# Flushes a network namespace's table of connections: a request of the kernel's conntrack netlink
# interface (IPCTNL_MSG_CT_DELETE without a connection), for which Debian has no tool by default.
_FLUSH = """
import socket, struct
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netlink.settimeout(5)
netlink.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))
error = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
raise SystemExit(-error)
"""


class NatNetwork(Network):
    """Some NATs with a host behind each, and some public hosts."""

    def __init__(self, nats: int, public: int, *, ipv6: bool = False) -> None:
        super().__init__(nats + public, ipv6=ipv6)
        self.nats = nats
        self.behind = [f"{self.hosts[i]}i" for i in range(nats)]

    def inside(self, host: int) -> tuple[str, ...]:
        """A command that runs on a host: a NAT's number is that of the host behind it."""
        space = self.behind[host] if host < self.nats else self.hosts[host]
        return ("ip", "netns", "exec", space)

    def at_nat(self, host: int) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.hosts[host])

    def __enter__(self) -> NatNetwork:
        super().__enter__()
        try:
            for host in range(self.nats):
                self._put_behind(host)
            for host in range(self.nats, len(self.hosts)):
                # What is sent to private addresses is lost, and nobody is told.
                self._route(("ip", "-n", self.hosts[host]), "default", self.gateway)
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
        for space in self.behind:
            _run("ip", "netns", "delete", space)
        super().__exit__(kind, error, trace)

    def private(self, host: int) -> str:
        return f"{self._site(host)}2"

    def _site(self, host: int) -> str:
        return f"fd77:{host + 1}::" if self.ipv6 else f"10.77.{host + 1}."

    def _put_behind(self, host: int) -> None:
        nat, space, gateway = self.hosts[host], self.behind[host], f"{self._site(host)}1"
        self._must("the right to make namespaces", "ip", "netns", "add", space)
        cable = ("ip", "link", "add", "eth", "netns", space, "type", "veth")
        self._must("cables", *cable, "peer", "name", "private", "netns", nat)
        at_nat, here = ("ip", "-n", nat), ("ip", "-n", space)
        self._assign(at_nat, gateway, "private")
        self._must("a cable", *at_nat, "link", "set", "private", "up")
        self._assign(here, self.private(host), "eth")
        self._must("a cable", *here, "link", "set", "eth", "up")
        self._must("loopback", *here, "link", "set", "lo", "up")
        self._route(here, "default", gateway)
        self._route(at_nat, "default", self.gateway)
        forward = "net.ipv6.conf.all.forwarding=1" if self.ipv6 else "net.ipv4.ip_forward=1"
        self._must("forwarding", *self.at_nat(host), "sysctl", "-qw", forward)
        rules = (
            f"table {'ip6' if self.ipv6 else 'ip'} nat {{ chain out {{ "
            'type nat hook postrouting priority 100; oifname "eth" masquerade random; }; }'
        )
        self._must("masquerading", *self.at_nat(host), "nft", rules)

    def forget_mappings(self, host: int) -> None:
        """The NAT has lost its table, as one does that was started again."""
        command = [*self.at_nat(host), sys.executable, "-c", _FLUSH]
        done = subprocess.run(command, capture_output=True, timeout=20, check=False, text=True)
        if done.returncode != 0:
            raise Unavailable(f"waits for conntrack over netlink: {done.stderr or done.returncode}")

    def forget_after(self, host: int, seconds: int) -> None:
        """Mappings of connections that say nothing for so long are lost."""
        path = "net.netfilter.nf_conntrack_tcp_timeout_established"
        self._must("conntrack", *self.at_nat(host), "sysctl", "-qw", f"{path}={seconds}")
        # Else a packet in the midst of a connection makes its mapping again.
        loose = "net.netfilter.nf_conntrack_tcp_loose=0"
        self._must("conntrack", *self.at_nat(host), "sysctl", "-qw", loose)

    def let_in(self, host: int, sender: int) -> None:
        """The private host is reached from the other host's side from now on: there is a route."""
        # Without a length it is of one host.
        self._route(("ip", "-n", self.hosts[sender]), self.private(host), self.address(host))

    def part(self, one: int, other: int) -> None:
        """What two public hosts send each other is lost; the others reach both."""
        for here, there in ((one, other), (other, one)):
            rules = (
                "table ip parted { chain arrivals { type filter hook input priority 0; "
                f"ip saddr {self.address(there)} drop; }}; }}"
            )
            self._must("a packet filter", *self.inside(here), "nft", rules)

    def rejoin(self, one: int, other: int) -> None:
        for here in (one, other):
            self._must("a packet filter", *self.inside(here), "nft", "delete table ip parted")
