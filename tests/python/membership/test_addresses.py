"""A coordinator that is at one of several addresses: real processes, real sockets, real kills."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from emulated_network import Network, Unavailable
from leftovers import running
from ports import held_port
from ranks import finish, kill, start_rank

import holdfast
from holdfast.cli import main

PATIENCE_S = 30.0
# Silence is a matter of some of these.
HEARTBEAT = {
    "HOLDFAST_HEARTBEAT": "0.1",
    "HOLDFAST_SILENCE": "1",
    "HOLDFAST_TRANSPORTS": "tcp",
}


def coordinate(here: Path, address: str, *options: str, before: Sequence[str] = ()) -> Any:
    """Start a coordinator; returns its process."""
    host, _, port = address.rpartition(":")
    command = ["-m", "holdfast.cli", "coordinator", "--address", host.strip("[]"), "--port", port]
    process = subprocess.Popen(
        [*before, sys.executable, *command, *options],
        stdout=subprocess.PIPE,
        stderr=(here / "coordinator.log").open("a"),
        env={**os.environ, **HEARTBEAT},
        text=True,
    )
    running.append(process)
    assert process.stdout is not None
    assert "listens" in process.stdout.readline()
    return process


def own_port() -> str:
    """An address that refuses until a coordinator is started there."""
    return f"127.0.0.1:{held_port()}"


def peer(
    here: Path,
    *addresses: str,
    function: str = "peer",
    before: Sequence[str] = (),
    **env: str,
) -> Any:
    settings = {
        "URL": f"holdfast://{','.join(addresses)}/run7",
        "MIN_PEERS": "2",
        "HOLDFAST_TIMEOUT": "20",
        # Less than a call stays open: who waited for one that nobody takes would be too late.
        "HOLDFAST_CONNECT_TIMEOUT": "9",
        **HEARTBEAT,
        **env,
    }
    running.append(start_rank("elastic_ranks", function, 0, 1, here, settings, before))
    return running[-1]


def await_line(process: Any, word: str) -> str:
    seen = ""
    while word not in (line := process.stdout.readline()):
        seen += line
        assert line, f"ended without {word}\n{seen}"
    return str(line)


def end_all(processes: list[Any], here: Path) -> None:
    """All end well, with the same state."""
    (here / "stop").touch()
    outcomes = finish(processes, 40)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.output
    ends = {found[1] for o in outcomes if (found := re.search(r"END (\{[^}]*\})", o.output))}
    assert len(ends) == 1, ends


@pytest.fixture
def silent() -> Iterator[str]:
    """An address whose host answers no call: its queue of connections is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        callers = []
        while not callers or callers[-1].connect_ex(listener.getsockname()) == 0:
            callers.append(socket.socket())
            callers[-1].settimeout(0.2)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for caller in callers:
            caller.close()


def test_members_that_name_addresses_in_any_order_are_one_sealed_job(tmp_path):
    gone, here = own_port(), own_port()
    secret = str(tmp_path / "job.secret")
    assert main(["secret", secret]) == 0
    env = {"HOLDFAST_SECRET_FILE": secret}
    coordinate(tmp_path, here, "--grace", "0", "--secret-file", secret)
    members = [peer(tmp_path, gone, here, **env), peer(tmp_path, here, gone, **env)]
    ranks = {await_line(member, "ready").split()[1] for member in members}
    assert ranks == {"0", "1"}
    stranger = peer(tmp_path, gone, here, function="join_and_say", LIMIT="0.7")
    said = await_line(stranger, "Timeout")
    assert gone in said, said
    assert "it has a secret: set option secret_file here, too" in said, said
    end_all(members, tmp_path)


def test_a_silent_address_does_not_keep_members_from_the_next(silent, tmp_path):
    here = own_port()
    coordinate(tmp_path, here, "--grace", "0")
    members = [peer(tmp_path, silent, here) for _ in range(2)]
    for member in members:
        await_line(member, "ready")
    end_all(members, tmp_path)


def test_a_coordinator_that_answers_late_is_found_while_others_are_called(tmp_path):
    """Stopped, it takes no call; the calls to the other address show that the search goes on."""
    slow = own_port()
    coordinator = coordinate(tmp_path, slow, "--grace", "0")
    coordinator.send_signal(signal.SIGSTOP)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(PATIENCE_S)
        name = f"127.0.0.1:{other.getsockname()[1]}"
        member = peer(tmp_path, slow, name, function="join_and_say", LIMIT="9")
        for _ in range(3):
            other.accept()[0].close()
        coordinator.send_signal(signal.SIGCONT)
        await_line(member, "in 0")


def test_a_job_goes_on_with_the_coordinator_at_its_second_address(tmp_path):
    first, second = own_port(), own_port()
    record = ("--record", str(tmp_path / "record"))
    coordinator = coordinate(tmp_path, first, *record)
    members = [peer(tmp_path, first, second, MIN_PEERS="3") for _ in range(3)]
    ranks = [await_line(member, "ready").split()[1] for member in members]
    kill(coordinator)
    coordinator.wait()
    kill(members[0])
    members[0].wait()
    coordinate(tmp_path, second, *record)
    # The lost member's rank is free when its loss has been decided.
    late = peer(tmp_path, second, first)
    assert await_line(late, "ready").split()[1] == ranks[0]
    end_all([*members[1:], late], tmp_path)


def test_a_job_goes_on_when_the_first_address_falls_silent(tmp_path):
    """Its machine says nothing any more, not even that it is gone."""
    try:
        with Network(3) as network:
            both = [f"{network.address(host)}:29400" for host in (0, 1)]
            record = ("--insecure", "--record", f"{tmp_path}/record")
            first = coordinate(tmp_path, both[0], *record, before=network.inside(0))
            member = peer(tmp_path, *both, before=network.inside(2), MIN_PEERS="1")
            await_line(member, "ready")
            network.pull_cable(0)
            # It has the file; a store would let both have it.
            kill(first)
            first.wait()
            coordinate(tmp_path, both[1], *record, before=network.inside(1))
            late = peer(tmp_path, *both, before=network.inside(2))
            assert await_line(late, "ready").split()[1] == "1"
            end_all([member, late], tmp_path)
    except Unavailable as lacks:
        pytest.skip(str(lacks))


def test_addresses_of_both_families_stand_beside_each_other(tmp_path):
    port = held_port()
    try:
        with socket.create_server(("::1", port), family=socket.AF_INET6):
            pass
    except OSError as why:
        pytest.skip(f"waits for a system with IPv6: {why}")
    gone = own_port()
    coordinate(tmp_path, f"[::1]:{port}", "--grace", "0")
    members = [peer(tmp_path, f"[0:0::1]:{port}", gone), peer(tmp_path, gone, f"[::1]:{port}")]
    for member in members:
        await_line(member, "ready")
    end_all(members, tmp_path)


def test_a_name_that_leads_nowhere_is_no_obstacle_beside_one_that_does(tmp_path):
    here = own_port()
    coordinate(tmp_path, here, "--grace", "0")
    nowhere = "no-such-host.invalid:29400"
    member = peer(tmp_path, nowhere, here, function="join_and_say", LIMIT="9")
    await_line(member, "in 0")
    neither = peer(tmp_path, nowhere, "none.invalid:1", function="join_and_say", LIMIT="9")
    assert "no-such-host.invalid" in await_line(neither, "ConfigError")


def test_where_none_leads_each_address_is_told(silent, tmp_path):
    gone = own_port()
    stray = peer(tmp_path, gone, silent, function="join_and_say", LIMIT="1.5")
    said = await_line(stray, "Timeout")
    assert f"no coordinator at {gone},{silent}/run7 in time" in said, said
    assert re.search(f"{gone}.*refused.*; {silent} does not answer", said), said


def test_a_newcomer_that_names_other_addresses_is_told_and_the_job_goes_on(tmp_path):
    here, gone, other = own_port(), own_port(), own_port()
    coordinate(tmp_path, here, "--grace", "0")
    members = [peer(tmp_path, here, gone) for _ in range(2)]
    for member in members:
        await_line(member, "ready")
    stray = peer(tmp_path, here, other, function="join_and_say", LIMIT="9")
    said = await_line(stray, "ConfigError")
    for named in ([here, gone], [here, other]):
        assert ",".join(sorted(named)) in said, said
    assert "accepted: the same addresses everywhere, in any order" in said, said
    end_all(members, tmp_path)


def test_of_founders_that_name_different_addresses_one_is_told_and_the_other_waits(tmp_path):
    here, gone = own_port(), own_port()
    coordinate(tmp_path, here, "--grace", "0", "--min-peers", "2")
    lists = ([here, gone], [here])
    founders = [peer(tmp_path, *named, function="join_and_say", LIMIT="30") for named in lists]
    until = time.monotonic() + PATIENCE_S
    while all(founder.poll() is None for founder in founders):
        assert time.monotonic() < until
        time.sleep(0.02)
    (told,) = (founder for founder in founders if founder.poll() is not None)
    assert ",".join(sorted([here, gone])) in await_line(told, "ConfigError")


def test_ranks_that_name_different_addresses_are_told_as_they_meet(tmp_path):
    here, gone = own_port(), own_port()
    coordinate(tmp_path, here)
    lists = [f"{here},{gone}", here]
    env = {**HEARTBEAT, "HOLDFAST_CONNECT_TIMEOUT": "5"}
    for rank, named in enumerate(lists):
        settings = {**env, "HOLDFAST_COORDINATOR": named}
        running.append(start_rank("elastic_ranks", "fixed", rank, 2, tmp_path, settings))
    outcomes = finish(running[1:], PATIENCE_S)
    assert all(outcome.status != 0 for outcome in outcomes)
    said = "\n".join(outcome.output for outcome in outcomes)
    assert re.search("ConfigError.*names one address at most as where its coordinator", said), said


def test_a_coordinator_that_stays_away_is_told_of_once(tmp_path):
    """Ops go on meanwhile."""
    here, gone = own_port(), own_port()
    coordinator = coordinate(tmp_path, here, "--grace", "0")
    member = peer(tmp_path, here, gone, MIN_PEERS="1")
    await_line(member, "ready")
    kill(coordinator)
    coordinator.wait()
    said = await_line(member, "there is no coordinator at")
    assert f"{here},{gone}/run7" in said, said
    assert "Ops go on" in said, said
    end_all([member], tmp_path)


@pytest.mark.parametrize(
    ("addresses", "says"),
    [
        ("a:1,b:2,a:1", "a:1 is named twice"),
        ("a:1,,b:2", "an address is missing beside a comma"),
        ("a:1,b", '"b" is no host:port'),
        ("a:1,::1:2", '"::1:2" has more than one colon'),
        (",".join(f"h{i}:1" for i in range(9)), "too many addresses"),
    ],
)
def test_a_list_that_cannot_be_used_is_an_error_that_says_what_can(addresses, says):
    with pytest.raises(holdfast.ConfigError) as refused:
        holdfast.join(f"holdfast://{addresses}/run7")
    assert addresses in str(refused.value)
    assert says in str(refused.value)
    assert "accepted: host:port" in str(refused.value)
    assert "up to 8 of them with commas between, 1024 characters in all" in str(refused.value)
