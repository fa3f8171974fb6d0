"""An etcd that speaks TLS, and asks its clients for certificates, of a real authority."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from authority import Authority
from etcd import Etcd
from leftovers import running
from ports import held_port
from waiting import eventually

pytestmark = pytest.mark.skipif(not Etcd.is_there(), reason="waits for etcd (etcd-server)")

COMMAND = [sys.executable, "-m", "holdfast.cli", "coordinator", "--address", "127.0.0.1"]
LIMIT_S = 60
Certificate = dict[str, str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("etcd") / "ca")


@pytest.fixture(scope="module")
def client(authority) -> Certificate:
    return authority.issue("coordinator")


@pytest.fixture(scope="module")
def etcd(authority, client, tmp_path_factory) -> Iterator[Etcd]:
    # Its JSON gateway is a client of itself.
    own = authority.issue("etcd", usage="serverAuth,clientAuth", hosts="IP:127.0.0.1")
    etcd = Etcd(tmp_path_factory.mktemp("data"), own, client)
    yield etcd
    etcd.kill()


def coordinator(log: Path, url: str, *options: str) -> subprocess.Popen[bytes]:
    with log.open("a") as said:
        process = subprocess.Popen(
            [*COMMAND, "--port", str(held_port()), "--etcd", url, *options],
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=dict(os.environ),
        )
    running.append(process)
    return process


def files(client: Certificate, authority: Path | None = None) -> list[str]:
    ca = str(authority) if authority else client["HOLDFAST_TLS_CA"]
    own = ["--etcd-cert", client["HOLDFAST_TLS_CERT"], "--etcd-key", client["HOLDFAST_TLS_KEY"]]
    return ["--etcd-ca", ca, *own]


def refusal(log: Path, url: str, *options: str) -> str:
    """What a coordinator says that ends at once."""
    assert coordinator(log, url, *options).wait(LIMIT_S) != 0
    return log.read_text()


def test_a_coordinator_leads_by_an_etcd_that_knows_its_certificate(etcd, client, tmp_path):
    log = tmp_path / "log"
    leader = coordinator(log, etcd.url, *files(client))
    eventually(lambda: "leads, with term" in log.read_text() or leader.poll() is not None)
    assert leader.poll() is None, log.read_text()
    assert etcd.entries("holdfast/term")


def test_an_etcd_of_another_authority_is_not_believed(etcd, client, tmp_path):
    other = Authority(tmp_path / "other").pem
    said = refusal(tmp_path / "log", etcd.url, *files(client, other))
    assert "the other side's certificate is refused" in said


def test_an_etcd_for_another_host_is_not_believed(etcd, client, tmp_path):
    by_name = etcd.url.replace("127.0.0.1", "localhost")
    said = refusal(tmp_path / "log", by_name, *files(client))
    assert "localhost" in said
    assert "no TLS with" in said


def test_who_shows_etcd_no_certificate_is_told(etcd, client, tmp_path):
    said = refusal(tmp_path / "log", etcd.url, "--etcd-ca", client["HOLDFAST_TLS_CA"])
    # Which of the two alerts comes is etcd's.
    assert re.search("refused: (bad certificate|certificate required)", said)
    assert "--etcd-cert" in said


def test_a_plain_http_url_of_an_etcd_that_speaks_tls_leads_nobody(etcd, client, tmp_path):
    log = tmp_path / "log"
    said = refusal(log, etcd.url.replace("https", "http"))
    assert "is no HTTP" in said


@pytest.mark.parametrize("missing", ["--etcd-cert", "--etcd-key"])
def test_half_a_pair_is_told_at_the_start(etcd, client, tmp_path, missing):
    options = files(client)
    at = options.index(missing)
    said = refusal(tmp_path / "log", etcd.url, *options[:at], *options[at + 2 :])
    assert "one of --etcd-cert and --etcd-key without the other" in said
