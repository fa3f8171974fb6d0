"""Sites on one machine: hosts at switches of their own, which lines join."""

from __future__ import annotations

from collections.abc import Sequence

from emulated_network import Network


class Sites(Network):
    """Hosts in sites. Each site has a line to a core, which joins all lines.

    Parameters
    ----------
    site_of : sequence of int
        By host, the number of its site, from 0 on.
    """

    def __init__(self, site_of: Sequence[int]) -> None:
        super().__init__(len(site_of))
        self._site_of = list(site_of)

    def __enter__(self) -> Sites:
        super().__enter__()
        try:
            for site in range(max(self._site_of) + 1):
                self._found(site)
            for host, site in enumerate(self._site_of):
                self._at_switch("link", "set", f"port{host}", "master", f"site{site}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _at_switch(self, *command: str) -> None:
        self._must("switches", "ip", "-n", self.switch, *command)

    def _found(self, site: int) -> None:
        """Make a switch, and a line from it to the core."""
        self._at_switch("link", "add", f"site{site}", "type", "bridge")
        self._at_switch("link", "set", f"site{site}", "up")
        names = (f"out{site}", "type", "veth", "peer", "name", f"into{site}")
        self._at_switch("link", "add", *names)
        self._at_switch("link", "set", f"out{site}", "master", f"site{site}", "up")
        self._at_switch("link", "set", f"into{site}", "master", "switch", "up")

    def line(self, site: int, mbit: float, delay_ms: float = 0.0) -> None:
        """Give the line a rate, each way; what leaves the site takes the delay, besides."""
        self._even(self.outside(), f"out{site}", mbit)
        self._even(self.outside(), f"into{site}", mbit)
        if delay_ms > 0:
            wait = ("netem", "delay", f"{delay_ms}ms", "limit", "100000")
            tc = (*self.outside(), "tc", "qdisc", "replace", "dev", f"out{site}")
            self._must("delays", *tc, "parent", "1:1", "handle", "10:", *wait)
