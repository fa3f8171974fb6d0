"""What a host says of its own links, without a byte sent: network cards, RDMA, NUMA nodes, GPUs.

It reads sysfs, and asks NVML where its Python module is installed (the package ``nvidia-ml-py``).
What a system does not say is "not known", with the reason: virtual cards tell -1 for their speed,
and no number is invented for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SYSFS = Path("/sys")
_ROUTES = Path("/proc/net/route")
_SIOCGIFADDR = 0x8915
# Cards on cards (VLAN, bridge, bond), and no more of them than this.
_MOST_LAYERS = 8
_MOST_KBIT_PER_S = 10**9
_MAX_NAME = 32


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a host says of itself.

    Parameters
    ----------
    what : str
        A card, a device, or a part of one.
    value : str or None
        For people, with its unit; None: not known.
    source : str
        The file or interface that says so, or why nothing does.
    """

    what: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Card:
    """The network card by which a host reaches others.

    Parameters
    ----------
    name : str
        Of its interface; empty: there is none.
    kbit_per_s : int
        Its rate, each way; 0: not known.
    source : str
        As of :class:`Fact`.
    """

    name: str
    kbit_per_s: int
    source: str


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _default_interface(routes: Path) -> str:
    """The interface of the default route with the least metric; empty: there is none."""
    best: tuple[int, str] | None = None
    for line in _text(routes).splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[1] != "00000000" or not words[6].isdigit():
            continue
        here = (int(words[6]), words[0])
        best = here if best is None or here < best else best
    return best[1] if best else ""


def _address_of(interface: str) -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        name = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(any_one, _SIOCGIFADDR, name)[20:24])
    return ""


def _rate(interface: str, sysfs: Path) -> tuple[int, str]:
    """Kbit/s and the file that says so; 0 and why nothing does."""
    file = sysfs / "class/net" / interface / "speed"
    said = _text(file)
    with contextlib.suppress(ValueError):
        kbit = int(said) * 1000
        if 0 < kbit <= _MOST_KBIT_PER_S:
            return kbit, str(file)
    return 0, f"{file} says {said or 'nothing'}"


def card_named(interface: str, *, sysfs: Path = SYSFS) -> Card:
    """Return what the system says of a network card.

    A VLAN or a bridge that does not know its rate has that of the card below it; several cards
    below have the sum of theirs only where one card (a bond) says so itself.

    Parameters
    ----------
    interface : str
        Its name.
    sysfs : Path
        Where the system's files are.

    Returns
    -------
    Card
        With a rate of 0 where none is known.
    """
    at = interface
    for _ in range(_MOST_LAYERS):
        kbit, source = _rate(at, sysfs)
        if kbit:
            return Card(interface, kbit, source)
        below = sorted((sysfs / "class/net" / at).glob("lower_*"))
        if len(below) != 1:
            return Card(interface, 0, source)
        at = below[0].name.removeprefix("lower_")
    return Card(interface, 0, f"{interface} stands on more than {_MOST_LAYERS} others")


def card_to_others(address: str = "", *, sysfs: Path = SYSFS, routes: Path = _ROUTES) -> Card:
    """Return the card by which this host reaches others.

    Parameters
    ----------
    address : str
        IPv4 address of this host that others call; empty: the default route counts.
    sysfs, routes : Path
        Where the system's files are.

    Returns
    -------
    Card
        Without a name where no interface has that address, or there is no default route.
    """
    if not address:
        if name := _default_interface(routes):
            return card_named(name, sysfs=sysfs)
        return Card("", 0, f"{routes} has no default route")
    for folder in sorted((sysfs / "class/net").glob("*")):
        if _address_of(folder.name) == address:
            return card_named(folder.name, sysfs=sysfs)
    return Card("", 0, f"no interface has the address {address}")


def _nodes(sysfs: Path) -> Iterator[Fact]:
    file = sysfs / "devices/system/node/online"
    yield Fact("NUMA nodes", _text(file) or None, str(file))


def _rdma(sysfs: Path) -> Iterator[Fact]:
    for port in sorted((sysfs / "class/infiniband").glob("*/ports/*")):
        device = f"{port.parent.parent.name} port {port.name}"
        yield Fact(device, _text(port / "rate") or None, str(port / "rate"))


def _cards(sysfs: Path) -> Iterator[Fact]:
    for folder in sorted((sysfs / "class/net").glob("*")):
        if folder.name == "lo":
            continue
        card = card_named(folder.name, sysfs=sysfs)
        rate = f"{card.kbit_per_s / 1e6:g} Gbit/s" if card.kbit_per_s else None
        yield Fact(f"card {card.name}", rate, card.source)
        node = _text(folder / "device/numa_node")
        if node.isdigit():
            at = str(folder / "device/numa_node")
            yield Fact(f"card {card.name}, NUMA node", node, at)


def _gpus(nvml: Any) -> Iterator[Fact]:
    if nvml is None:
        yield Fact("GPUs", None, "waits for the package nvidia-ml-py")
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        yield Fact("GPUs", None, f"NVML: {error}")
        return
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            yield from _gpu(nvml, index)
    except nvml.NVMLError as error:
        # A GPU that is lost answers nothing any more.
        yield Fact("more GPUs", None, f"NVML: {error}")


def _gpu(nvml: Any, index: int) -> Iterator[Fact]:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    name = f"GPU {index}"
    bus = nvml.nvmlDeviceGetPciInfo(gpu).busId
    yield Fact(name, bus.decode() if isinstance(bus, bytes) else str(bus), "NVML")
    with contextlib.suppress(nvml.NVMLError):
        generation = nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)
        lanes = nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)
        yield Fact(f"{name}, PCIe", f"generation {generation}, {lanes} lanes", "NVML")
    links = 0
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 0)):
        # A GPU says "not supported" for links that it has not.
        with contextlib.suppress(nvml.NVMLError):
            links += int(nvml.nvmlDeviceGetNvLinkState(gpu, link) == 1)
    yield Fact(f"{name}, NVLink", f"{links} links up", "NVML")


def nvml_module() -> Any:
    """Return the module of NVML, or None where it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def facts(*, sysfs: Path = SYSFS, nvml: Any = None) -> list[Fact]:
    """Return all that this host says of its links.

    Parameters
    ----------
    sysfs : Path
        Where the system's files are.
    nvml : module, optional
        As of :func:`nvml_module`.

    Returns
    -------
    list of Fact
        Cards, RDMA ports, NUMA nodes, GPUs.
    """
    return [*_cards(sysfs), *_rdma(sysfs), *_nodes(sysfs), *_gpus(nvml)]


def map_of_cards(
    hosts: Sequence[int],
    cards: Sequence[tuple[str, int]],
    domains: Sequence[Sequence[str]] = (),
) -> str:
    """Return a map of links from what hosts say of their cards.

    Where a host's rate is not known, its pairs have the default of 20 Gbit/s, and no capacity of
    their own; a capacity's name says where it comes from.

    Parameters
    ----------
    hosts : sequence of int
        By rank, the number of its host; -1: the rank is vacant, and counts as a host of its own.
    cards : sequence of (str, int)
        By rank, the name of its host's card and its rate in kbit/s, 0: not known. Of a host, the
        card of its lowest rank counts.
    domains : sequence of sequence of str
        By rank, the names of the domains around its host, from the outside in. Of a host, those of
        its lowest rank count.

    Returns
    -------
    str
        JSON.
    """
    ranks = range(len(hosts))
    inside, between = 48, 20
    host_of = [f"host-{host}" if host >= 0 else f"host-of-rank-{r}" for r, host in enumerate(hosts)]
    first = {host: host_of.index(host) for host in host_of}
    shared = []
    for host, lowest in first.items():
        own = [r for r in ranks if host_of[r] == host]
        others = [r for r in ranks if host_of[r] != host]
        name, kbit = cards[lowest]
        if not others or kbit <= 0:
            continue
        for way, senders, receivers in (("out of", own, others), ("into", others, own)):
            said = f"{way} {host}: sysfs, {name[:_MAX_NAME]}"
            shared.append(
                {"name": said, "gbit_per_s": kbit / 1e6, "from": senders, "to": receivers}
            )
    fastest = [max(between, cards[r][1] / 1e6) for r in ranks]

    def rate(a: int, b: int) -> float:
        return inside if host_of[a] == host_of[b] else min(fastest[a], fastest[b])

    return json.dumps(
        {
            "format": 1,
            "ranks": len(hosts),
            "domains": [[*(domains[first[host]] if domains else ()), host] for host in host_of],
            "gbit_per_s": [[0 if a == b else rate(a, b) for b in ranks] for a in ranks],
            "alpha_us": [
                [0 if a == b else 4 if host_of[a] == host_of[b] else 20 for b in ranks]
                for a in ranks
            ],
            "shared": shared,
        }
    )
