"""What a host says of its own links: read from made-up systems, from this one, and by a group."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from emulated_network import Network, Unavailable
from ranks import finish, start_rank

from holdfast import cli
from holdfast.topology import chart, discover


@pytest.fixture
def system(tmp_path) -> Path:
    """A system's files: write() makes one."""
    return tmp_path / "sys"


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def stands_on(root: Path, upper: str, *lower: str) -> None:
    for name in lower:
        write(root, f"class/net/{upper}/lower_{name}/placeholder", "")


@pytest.mark.parametrize(
    ("said", "kbit"),
    [("25000\n", 25_000_000), ("-1\n", 0), ("0\n", 0), ("fast", 0), ("", 0), ("9" * 30, 0)],
)
def test_a_speed_is_a_number_or_not_known(system, said, kbit) -> None:
    write(system, "class/net/eth0/speed", said)
    card = discover.card_named("eth0", sysfs=system)
    assert card.kbit_per_s == kbit
    assert "class/net/eth0/speed" in card.source
    if not kbit:
        assert (said.strip() or "nothing") in card.source


def test_a_card_that_is_not_there_is_not_known(system) -> None:
    assert discover.card_named("eth7", sysfs=system).kbit_per_s == 0


def test_a_vlan_on_a_bridge_has_the_rate_of_the_card_below(system) -> None:
    write(system, "class/net/eth0/speed", "10000")
    write(system, "class/net/br0/speed", "-1")
    write(system, "class/net/br0.7/speed", "")
    stands_on(system, "br0.7", "br0")
    stands_on(system, "br0", "eth0")
    card = discover.card_named("br0.7", sysfs=system)
    assert (card.name, card.kbit_per_s) == ("br0.7", 10_000_000)
    assert card.source.endswith("eth0/speed")


def test_a_bond_says_its_own_rate_and_a_bridge_of_two_cards_none(system) -> None:
    for name in ("eth0", "eth1"):
        write(system, f"class/net/{name}/speed", "25000")
    write(system, "class/net/bond0/speed", "50000")
    stands_on(system, "bond0", "eth0", "eth1")
    write(system, "class/net/br0/speed", "-1")
    stands_on(system, "br0", "eth0", "eth1")
    assert discover.card_named("bond0", sysfs=system).kbit_per_s == 50_000_000
    assert discover.card_named("br0", sysfs=system).kbit_per_s == 0


def test_cards_in_a_circle_end(system) -> None:
    stands_on(system, "a", "b")
    stands_on(system, "b", "a")
    assert "more than" in discover.card_named("a", sysfs=system).source


def test_the_default_route_with_the_least_metric_counts(system, tmp_path) -> None:
    routes = tmp_path / "route"
    line = "{}\t{}\t01\t0003\t0\t0\t{}\t00000000\t0\t0\t0\n"
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    routes.write_text(
        head
        + line.format("eth1", "00000000", 200)
        + line.format("eth0", "00000000", 100)
        + line.format("eth2", "000200C0", 1)
        + "nonsense\n"
    )
    write(system, "class/net/eth0/speed", "1000")
    card = discover.card_to_others(sysfs=system, routes=routes)
    assert (card.name, card.kbit_per_s) == ("eth0", 1_000_000)
    routes.write_text(head)
    card = discover.card_to_others(sysfs=system, routes=routes)
    assert card.name == ""
    assert "no default route" in card.source


def test_an_address_that_no_interface_has_is_told() -> None:
    assert "192.0.2.77" in discover.card_to_others("192.0.2.77").source
    assert discover.card_to_others("127.0.0.1").name == "lo"


def test_rdma_ports_and_numa_nodes_are_listed(system) -> None:
    write(system, "class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n")
    write(system, "class/net/ib0/speed", "100000")
    write(system, "class/net/ib0/device/numa_node", "1")
    write(system, "devices/system/node/online", "0-1\n")
    found = {fact.what: fact.value for fact in discover.facts(sysfs=system)}
    assert found == {
        "card ib0": "100 Gbit/s",
        "card ib0, NUMA node": "1",
        "mlx5_0 port 1": "100 Gb/sec (4X EDR)",
        "NUMA nodes": "0-1",
        "GPUs": None,
    }


def nvml(*, driver: bool = True) -> SimpleNamespace:
    """As the module pynvml, of one GPU with two of three links up."""

    class NVMLError(Exception):
        pass

    def init() -> None:
        if not driver:
            raise NVMLError("Driver Not Loaded")

    def state(gpu: int, link: int) -> int:
        if link == 2:
            raise NVMLError("Not Supported")
        return 1

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_NVLINK_MAX_LINKS=3,
        nvmlInit=init,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetPciInfo=lambda gpu: SimpleNamespace(busId=b"00000000:1B:00.0"),
        nvmlDeviceGetMaxPcieLinkGeneration=lambda gpu: 5,
        nvmlDeviceGetMaxPcieLinkWidth=lambda gpu: 16,
        nvmlDeviceGetNvLinkState=state,
    )


def test_gpus_are_listed_or_the_reason_is(system) -> None:
    found = {fact.what: fact.value for fact in discover.facts(sysfs=system, nvml=nvml())}
    assert found["GPU 0"] == "00000000:1B:00.0"
    assert found["GPU 0, PCIe"] == "generation 5, 16 lanes"
    assert found["GPU 0, NVLink"] == "2 links up"
    lost = nvml()

    def pci(gpu: int) -> None:
        raise lost.NVMLError("GPU is lost")

    lost.nvmlDeviceGetPciInfo = pci
    assert discover.facts(sysfs=system, nvml=lost)[-1].source == "NVML: GPU is lost"
    without = discover.facts(sysfs=system, nvml=nvml(driver=False))[-1]
    assert (without.what, without.value) == ("GPUs", None)
    assert "Driver Not Loaded" in without.source
    assert "nvidia-ml-py" in discover.facts(sysfs=system)[-1].source


def test_a_map_of_cards_has_what_is_known_and_defaults_elsewhere() -> None:
    text = discover.map_of_cards(
        [0, 0, 1, 2], [("eth0", 25_000_000)] * 2 + [("ib0", 10**8), ("", 0)]
    )
    found = chart.read(text)
    assert found.kbit_per_s[0, 1] == 48_000_000
    assert found.kbit_per_s[0, 2] == 25_000_000
    assert found.kbit_per_s[0, 3] == 20_000_000
    assert [(one.name, one.kbit_per_s) for one in found.shared] == [
        ("out of host-0: sysfs, eth0", 25_000_000),
        ("into host-0: sysfs, eth0", 25_000_000),
        ("out of host-1: sysfs, ib0", 100_000_000),
        ("into host-1: sysfs, ib0", 100_000_000),
    ]
    assert found.shared[0].senders == (0, 1)
    assert not chart.read(discover.map_of_cards([0, 0], [("eth0", 1000)] * 2)).shared


def test_a_map_of_cards_has_domains_and_a_vacant_rank_shares_none() -> None:
    cards = [("eth0", 1_000_000), ("", 0), ("", 0)]
    found = chart.read(discover.map_of_cards([0, -1, -1], cards, [["site-a"], [], []]))
    assert found.domains == (("site-a", "host-0"), ("host-of-rank-1",), ("host-of-rank-2",))
    assert found.kbit_per_s[1, 2] == 20_000_000


def test_the_command_says_what_this_host_says(capsys) -> None:
    assert cli.main(["topology", "discover"]) == 0
    assert "NUMA nodes" in capsys.readouterr().out
    assert cli.main(["topology", "discover", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"what", "value", "source"} == set(said[0])


def test_a_group_goes_by_what_its_hosts_say(tmp_path) -> None:
    try:
        with Network(2) as network:
            processes = []
            for rank, host in enumerate([0, 0, 1]):
                env = {
                    "HOLDFAST_TRANSPORTS": "shm,tcp",
                    "HOLDFAST_ADDRESS": network.address(host),
                    "HOLDFAST_HOST_ID": f"host{host}",
                    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
                }
                at = (rank, 3, tmp_path, env, network.inside(host))
                processes.append(start_rank("measure_ranks", "discover_links", *at))
            outcomes = finish(processes, 60)
    except Unavailable as why:
        pytest.skip(str(why))
    maps = []
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
        (line,) = [x for x in outcome.output.splitlines() if x.startswith("MAP ")]
        maps.append(json.loads(line.removeprefix("MAP ")))
    assert len({one["digest"] for one in maps}) == 1
    names = [one["name"] for one in maps[0]["map"]["shared"]]
    # What the kernel says of a cable between namespaces.
    assert names == [
        f"{way} host-{host}: sysfs, eth" for host in (0, 1) for way in ("out of", "into")
    ]
    assert {one["gbit_per_s"] for one in maps[0]["map"]["shared"]} == {10}
