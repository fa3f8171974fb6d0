"""Members behind NATs, which nobody can call: they meet by a relay, and need no port of their own.

Real processes in network namespaces; the NATs are the kernel's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_nats import NatNetwork
from emulated_network import Unavailable
from inside_pages import page_inside
from leftovers import running
from ranks import finish, start_rank
from waiting import eventually

import holdfast
from holdfast.cli import main
from holdfast.ft.health.evidence import Metrics, metrics_of

# Two NATs with a host behind each, and three public hosts.
FIRST, SECOND, PUBLIC, OTHER, THIRD = range(5)
PORT = 29400
# On the loopback of each host; and the relay's, beside the coordinator's.
PAGES, RELAYS_PAGES = 9400, 9402


@pytest.fixture
def ipv6() -> bool:
    return False


# Of tests that are about every kind of address.
both_families = pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])


@pytest.fixture
def network(ipv6: bool) -> Iterator[NatNetwork]:
    try:
        with NatNetwork(2, 3, ipv6=ipv6) as network:
            yield network
    except Unavailable as why:
        pytest.skip(str(why))


class _Site:
    """A coordinator on a public host, and members that come by tokens."""

    def __init__(self, here: Path, network: NatNetwork, capsys: Any) -> None:
        self.here, self.network = here, network
        self.secret = str(here / "run.secret")
        assert main(["secret", self.secret]) == 0
        capsys.readouterr()
        assert main(["token", "new", "--secret-file", self.secret, "--run", "run7"]) == 0
        self.token = here / "run.token"
        self.token.touch(mode=0o600)
        self.token.write_text(capsys.readouterr().out)
        self.members: list[Any] = []

    def serve(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of holdfast's on the first public host."""
        process = subprocess.Popen(
            [
                *self.network.inside(PUBLIC),
                *(sys.executable, "-m", "holdfast.cli", command, "--secret-file", self.secret),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=(self.here / f"{command}.log").open("a"),
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert "listens" in process.stdout.readline()
        return process

    def coordinate(self) -> subprocess.Popen[str]:
        pages = ("--http", f"127.0.0.1:{PAGES}")
        return self.serve("coordinator", "--port", str(PORT), "--grace", "0", *pages)

    def metrics(self, host: int, port: int = PAGES) -> Metrics:
        return metrics_of(page_inside(self.network.inside(host), port, "metrics"))

    def relayed(self) -> set[tuple[int, int]]:
        """Pairs of ranks whose links go through a relay, by the coordinator's page."""
        said = page_inside(self.network.inside(PUBLIC), PAGES, "status")
        (world,) = json.loads(said)["worlds"]
        links = [link for link in world.get("far_links", []) if link["relayed"]]
        return {(link["rank"], link["peer"]) for link in links}

    def start(self, hosts: list[int], peers: int = 0, **env: str) -> None:
        for host in hosts:
            whole = {
                "HOLDFAST_HOST_ID": f"host {host}",
                "HOLDFAST_HEARTBEAT": "0.2",
                "HOLDFAST_TRUNK": "on",
                "HOLDFAST_CONNECT_TIMEOUT": "30",
                "HOLDFAST_TOKEN_FILE": str(self.token),
                "URL": f"holdfast://{self.network.endpoint(PUBLIC, PORT)}/run7",
                "PEERS": str(peers or len(hosts)),
                "HERE": str(self.here),
                **env,
            }
            member = start_rank(
                *("nat_ranks", "until_told", len(self.members), 1, self.here, whole),
                before=self.network.inside(host),
            )
            running.append(member)
            self.members.append(member)

    def ops(self) -> int:
        counts = [
            self.here / f"ops{rank}"
            for rank in range(len(self.members))
            if (self.here / f"ops{rank}").exists()
        ]
        if len(counts) < len(self.members):
            self.check_members()
            return 0
        return min(int(path.read_text() or 0) for path in counts)

    def check_members(self) -> None:
        for member in self.members:
            assert member.poll() is None, finish([member], 5)[0].output

    def go_on(self, ops: int = 20) -> None:
        """Until all have done so many more."""
        goal = self.ops() + ops
        eventually(lambda: self.ops() >= goal, 60)

    def end(self, views: int = 0) -> list[dict[str, Any]]:
        """What all tell; there were at most so many changes of view."""
        (self.here / "stop").touch()
        told = []
        for outcome in finish(self.members, 60):
            assert outcome.status == 0, outcome.output
            lines = [line for line in outcome.output.splitlines() if line.startswith("{")]
            told.append(json.loads(lines[-1]))
            assert told[-1]["views"] <= views, told[-1]
            assert told[-1]["live"] == list(range(len(self.members))), told[-1]
        return told

    def pairs(self) -> int:
        """Pairs at the relay, as it told last."""
        lines = [
            line for line in (self.here / "relay.log").read_text().splitlines() if "pairs" in line
        ]
        return int(lines[-1].split(" pairs")[0].split(", ")[-1]) if lines else 0


@pytest.fixture
def site(tmp_path: Path, network: NatNetwork, capsys: pytest.CaptureFixture[str]) -> _Site:
    return _Site(tmp_path, network, capsys)


@both_families
def test_ranks_behind_nats_sum_and_lose_nothing_with_the_nats_tables(site):
    site.coordinate()
    site.start([FIRST, SECOND, PUBLIC])
    site.go_on()
    # The coordinator is the relay of the two; its page is as old as a heartbeat.
    metrics = eventually(
        lambda: (m := site.metrics(PUBLIC)).total("holdfast_relay_passed_bytes_total") > 1000 and m
    )
    assert metrics.total("holdfast_relay_pairs") > 0
    assert metrics.total("holdfast_relay_members") == 2
    for _ in range(2):
        site.network.forget_mappings(FIRST)
        site.go_on()
        site.network.forget_mappings(SECOND)
        site.go_on()
    for told in site.end():
        assert told["latest"] < 15, told


@both_families
def test_a_mapping_that_is_forgotten_after_three_silent_seconds_holds(site):
    for host in (FIRST, SECOND):
        site.network.forget_after(host, 3)
    site.coordinate()
    site.start([FIRST, SECOND], PAUSE="4", HOLDFAST_HEARTBEAT="0.5")
    # Two silences.
    eventually(lambda: site.ops() >= 3, 60)
    site.end()


def test_two_that_lose_each_other_go_on_by_the_relay_and_directly_again_later(site):
    pages = ("--http", f"127.0.0.1:{RELAYS_PAGES}")
    site.serve("relay", "--listen", f"{site.network.address(PUBLIC)}:29401", *pages)
    site.coordinate()
    site.start([OTHER, THIRD], HOLDFAST_RELAY=f"{site.network.address(PUBLIC)}:29401")
    site.go_on()
    site.network.part(OTHER, THIRD)
    site.go_on()
    eventually(lambda: site.pairs() > 0)
    assert site.metrics(PUBLIC, RELAYS_PAGES).total("holdfast_relay_pairs") > 0
    site.network.rejoin(OTHER, THIRD)
    eventually(lambda: site.pairs() == 0)
    metrics = site.metrics(PUBLIC, RELAYS_PAGES)
    assert metrics.total("holdfast_relay_pairs") == 0
    assert metrics.total("holdfast_relay_joined_total") >= 1
    site.go_on()
    site.end()


# One connection is renewed, which is a change of view; a trunk has a further one.
@pytest.mark.parametrize(
    ("trunk", "views", "ipv6"), [("on", 0, False), ("off", 1, False), ("on", 0, True)]
)
def test_members_behind_nats_meet_at_a_relay_of_its_own_until_there_is_a_direct_way(
    site, trunk, views
):
    relay = site.serve("relay", "--listen", ":29401")
    site.coordinate()
    env = {"HOLDFAST_HTTP": f"127.0.0.1:{PAGES}", "HOLDFAST_TRUNK": trunk}
    relay_at = site.network.endpoint(PUBLIC, 29401)
    site.start([FIRST, OTHER, SECOND], HOLDFAST_RELAY=relay_at, **env)
    site.go_on()
    # Who can be called is called.
    eventually(lambda: site.pairs() == 1)
    (one, two) = eventually(lambda: len(found := site.relayed()) == 2 and found)
    assert one == two[::-1]
    site.network.let_in(FIRST, SECOND)
    eventually(lambda: site.pairs() == 0)
    eventually(lambda: not site.relayed())
    for host in (FIRST, SECOND):
        assert site.metrics(host).total("holdfast_link_went_direct_total") == 1
    site.go_on()
    site.end(views)
    relay.terminate()
    assert relay.wait(20) == 0


def test_a_wrong_token_is_refused_by_the_relay_with_the_reason(site, capsys):
    site.serve("relay", "--listen", ":29401", "--http", f"127.0.0.1:{RELAYS_PAGES}")
    other = site.here / "other.secret"
    assert main(["secret", str(other)]) == 0
    capsys.readouterr()
    assert main(["token", "new", "--secret-file", str(other), "--run", "run7"]) == 0
    site.token.write_text(capsys.readouterr().out)
    begun = time.monotonic()
    site.start([FIRST], HOLDFAST_RELAY=f"{site.network.address(PUBLIC)}:29401")
    outcome = finish(site.members, 60)[0]
    assert outcome.status != 0
    assert "the relay refuses this process" in outcome.output, outcome.output
    assert "option relay" in outcome.output
    assert time.monotonic() - begun < 30
    refused = site.metrics(PUBLIC, RELAYS_PAGES).by("holdfast_relay_refused_total", "why")
    assert refused.pop("token") >= 1
    assert not any(refused.values()), refused


@pytest.mark.parametrize("relay", ["192.0.2.1:29401", "nobody:1,[2001:db8::1]:2"])
def test_a_relay_without_a_secret_is_refused(relay):
    options = holdfast.Options(relay=relay)
    with pytest.raises(holdfast.ConfigError, match=r"option relay = .* without a secret"):
        holdfast.join("holdfast://127.0.0.1:9/run7", options=options)


@pytest.mark.parametrize("relay", ["nobody", "a:0", "a:1/run7", "a:1,b:1,c:1,d:1,e:1", ","])
def test_what_is_no_list_of_relays_is_refused(relay):
    with pytest.raises(holdfast.ConfigError, match="relay"):
        holdfast.Options(relay=relay)


def test_the_command_says_what_it_accepts(capsys, tmp_path):
    assert main(["relay", "--listen", "here"]) == 2
    assert "accepted: HOST:PORT" in capsys.readouterr().err
    assert main(["relay", "--listen", "127.0.0.1:0"]) == 2
    assert "a relay without a secret" in capsys.readouterr().err


def test_pages_of_a_relay_have_the_lock_of_other_pages(capsys, tmp_path):
    secret = str(tmp_path / "run.secret")
    assert main(["secret", secret]) == 0
    relay = ("relay", "--listen", "127.0.0.1:0", "--secret-file", secret)
    assert main([*relay, "--http", "0.0.0.0:0"]) == 2
    assert "missing: http_credentials, http_cert and http_key" in capsys.readouterr().err
    credentials = tmp_path / "credentials"
    credentials.touch(mode=0o600)
    credentials.write_text(f"observer bearer {'t' * 20}\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast.cli", *relay, "--http", "127.0.0.1:0"),
            *("--http-credentials", str(credentials)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    running.append(process)
    assert process.stdout is not None
    assert "listens" in process.stdout.readline()
    url = process.stdout.readline().split()[-1]

    def answer(name, **headers):
        try:
            request = urllib.request.Request(f"{url}/{name}", headers=headers)
            with urllib.request.urlopen(request, timeout=20) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    known = {"Authorization": f"Bearer {'t' * 20}"}
    assert answer("healthz") == (200, "ok\n")
    assert answer("metrics")[0] == 401
    code, text = answer("metrics", **known)
    assert code == 200
    assert "holdfast_relay_pairs 0\n" in text
    assert 'holdfast_relay_refused_total{why="full"} 0\n' in text
    assert answer("status", **known) == (404, "pages: /metrics /healthz\n")
    process.terminate()
    assert process.wait(20) == 0


def test_what_is_no_relay_is_named(site):
    server = subprocess.Popen(
        [*site.network.inside(PUBLIC), sys.executable, "-m", "http.server", "8080"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=site.here,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    running.append(server)
    assert server.stdout is not None
    assert "Serving" in server.stdout.readline()
    site.start([FIRST], HOLDFAST_RELAY=f"{site.network.address(PUBLIC)}:8080")
    outcome = finish(site.members, 60)[0]
    assert outcome.status != 0
    assert "what answers there is no relay: an HTTP server" in outcome.output, outcome.output
    assert "accepted: the address of `holdfast relay`" in outcome.output
