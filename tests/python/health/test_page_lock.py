"""The lock of the pages: who reads which, over TLS and without, and that no secret is told."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from browser import Browser
from health_jobs import Job, Prometheus
from ranks import finish, kill, start_rank
from waiting import eventually

from holdfast import cli
from holdfast.errors import ConfigError
from holdfast.ft.health import collect, status
from holdfast.ft.health.access import Access, split_address, tls_context
from holdfast.ft.health.doctor import job_of

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
OBSERVER = "observer-0123456789abcdef"
ADMIN = "admin-fedcba9876543210"
PASSWORD = "correct-horse-battery"
SECRETS = (OBSERVER, ADMIN, PASSWORD)
BASIC = "Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
LINES = f"""# who may read the pages
observer bearer {OBSERVER}
admin bearer {ADMIN}
observer basic ada {PASSWORD}
"""


def credentials_file(folder: Path, text: str = LINES, name: str = "credentials") -> Path:
    path = folder / name
    path.touch(0o600)
    path.write_text(text)
    return path


def certificate(folder: Path, names: str = "DNS:holdfast-pages") -> tuple[Path, Path]:
    """A certificate that nobody else has signed, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=pages"
    made += f" -keyout {key} -out {cert} -addext subjectAltName={names}"
    subprocess.run(["openssl", "req", *made.split()], check=True, capture_output=True)
    key.chmod(0o600)
    return cert, key


def ask(where: str, path: str, *authorizations: str, cert: Path | None = None) -> tuple[int, str]:
    """Status of a page, and what the answer asks for or says."""
    connection = Access(tls=tls_context(str(cert)) if cert else None).connect(where, 10)
    try:
        connection.putrequest("GET", path)
        for value in authorizations:
            connection.putheader("Authorization", value)
        connection.endheaders()
        answer = connection.getresponse()
        asks = answer.headers.get_all("WWW-Authenticate") or []
        return answer.status, " ".join(asks) or answer.read().decode()
    finally:
        connection.close()


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def call(*arguments: str, **env: str) -> Done:
    """Run a command of ours, here: starting an interpreter for each takes longer than the tests."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, env),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        returncode = cli.main(arguments)
    return Done(returncode, out.getvalue(), err.getvalue())


PAGES = {
    "rank": ("/", "/status", "/metrics", "/healthz", "/readyz", "/flight", "/stack", "/none"),
    "coordinator": ("/", "/status", "/metrics", "/healthz", "/readyz", "/targets", "/none"),
}
FOR_ALL = ("/healthz", "/readyz")
FOR_ADMINS = ("/flight", "/stack")


def expected(role: str, path: str) -> int:
    if role == "nobody" and path not in FOR_ALL:
        return 401
    if role == "observer" and path in FOR_ADMINS:
        return 403
    return 404 if path == "/none" else 200


def check_every_cell(job: Job, cert: Path | None) -> None:
    says = {
        "nobody": ((), ("Bearer wrong-0123456789abcdef",), ("Basic " + OBSERVER,)),
        "observer": ((f"Bearer {OBSERVER}",), (f"bearer  {OBSERVER}",), (BASIC,)),
        "admin": ((f"Bearer {ADMIN}",),),
    }
    for server, where in (("rank", job.where[0]), ("coordinator", job.pages)):
        for role, ways in says.items():
            # The other ways to say the same do not depend on what they come by.
            for headers in ways if cert is None else ways[:1]:
                for path in PAGES[server]:
                    code, text = ask(where, path, *headers, cert=cert)
                    # Stacks of a program that has begun an op may be denied for a second.
                    if path == "/stack" and code == 503:
                        continue
                    assert code == expected(role, path), (server, role, path, text)
                    if code == 401:
                        assert 'Bearer realm="holdfast" Basic realm="holdfast"' in text
        assert ask(where, "/metrics", "Bearer " + "a" * 4000, cert=cert)[0] == 401
        assert ask(where, "/metrics", "Bearer " + "a" * 9000, cert=cert)[0] == 431
        assert ask(where, "/metrics", f"Bearer {ADMIN}", BASIC, cert=cert)[0] == 400


def check_programs_read(job: Job, credentials: Path, *ca: str) -> None:
    """`top` and `trace` read pages with the file, and say what is missing without."""
    targets = collect.url_of(job.pages, "targets")
    with_file = ("--credentials", str(credentials), *ca)
    access = Access(f"Bearer {OBSERVER}", tls_context(ca[1]) if ca else None)
    eventually(lambda: len(collect.targets(targets, access)) == 2)
    # The option's own variable names the file, too.
    shown = call("top", "--once", job.pages, *ca, HOLDFAST_HTTP_CREDENTIALS=str(credentials))
    assert "2 of 2 ranks" in shown.stdout, shown.stderr
    traced = call("trace", "--targets", targets, "-o", str(job.here / "t.json"), *with_file)
    assert traced.returncode == 0, traced.stderr
    for command in (["top", "--json", job.pages], ["doctor", job.where[0]]):
        refused = call(*command, *ca)
        assert refused.returncode != 0
        assert "--credentials FILE" in refused.stderr
    for done in (shown, traced, refused):
        assert not any(secret in done.stdout + done.stderr for secret in SECRETS)


def check_an_observer_is_told_what_is_for_admins(job: Job, credentials: Path) -> None:
    targets = collect.url_of(job.pages, "targets")
    seen = call("doctor", "--json", "--targets", targets, "--credentials", str(credentials))
    assert json.loads(seen.stdout)["answering"] == 2, seen.stderr
    lesser = credentials_file(job.here, f"observer bearer {OBSERVER}\n", "lesser")
    seen = call("doctor", "--targets", targets, "--credentials", str(lesser))
    assert "without the flight record, which is for the role admin" in seen.stdout, seen.stderr
    traced = call("trace", "--targets", targets, "-o", "x", "--credentials", str(lesser))
    assert "is for the role admin" in traced.stderr


def texts_of_processes(job: Job) -> Iterator[tuple[str, bytes]]:
    for process in job.processes():
        for name in ("cmdline", "environ"):
            yield f"{name} of {process.pid}", Path(f"/proc/{process.pid}/{name}").read_bytes()


def check_no_secret_is_told(job: Job, cert: Path | None, folder: Path) -> None:
    told = dict(texts_of_processes(job))
    for server, where in (("rank", job.where[0]), ("coordinator", job.pages)):
        for path in PAGES[server]:
            told[where + path] = ask(where, path, f"Bearer {ADMIN}", cert=cert)[1].encode()
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("credentials", "lesser"):
            told[str(path)] = path.read_bytes()
    told["info"] = call(
        "info", HOLDFAST_HTTP_CREDENTIALS=str(folder / "credentials")
    ).stdout.encode()
    assert len(told) > 20
    assert b"http_credentials" in told["info"]
    for place, text in told.items():
        for secret in (*SECRETS, BASIC.partition(" ")[2]):
            assert secret.encode() not in text, place


def test_each_page_is_for_its_role_and_no_secret_is_told(tmp_path: Path) -> None:
    credentials = credentials_file(tmp_path)
    (tmp_path / "flight").mkdir()
    env = {
        "HOLDFAST_HTTP_CREDENTIALS": str(credentials),
        "HOLDFAST_FLIGHT_DIR": str(tmp_path / "flight"),
    }
    with Job(tmp_path, "work_and_rest", 2, **env) as job:
        check_every_cell(job, None)
        check_programs_read(job, credentials)
        check_an_observer_is_told_what_is_for_admins(job, credentials)
        check_no_secret_is_told(job, None, tmp_path)
        job.stop()
    logs = "".join(p.read_text() for p in tmp_path.glob("*.log"))
    assert not any(secret in logs for secret in SECRETS)


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no chromium here (Debian package chromium)"
)
def test_a_browser_asks_for_the_password_and_shows_the_page(tmp_path: Path) -> None:
    env = {"HOLDFAST_HTTP_CREDENTIALS": str(credentials_file(tmp_path))}
    with Job(tmp_path, "work_and_rest", 2, **env) as job:
        browser = Browser(tmp_path)
        try:
            browser.will_answer(("ada", "wrong"), ("ada", PASSWORD))
            browser.open(f"http://{job.pages}/")
            assert browser.asked_for == ["holdfast"] * 2
            # What the page asks for itself needs no more prompts.
            browser.until("document.querySelectorAll('.ranks tr.well').length === 2")
            browser.will_answer()
            browser.open(f"http://{job.where[0]}/stack")
            assert browser.asked_for == ["holdfast"] * 3
            assert "wants a credential" in browser.value("document.body.textContent")
        finally:
            browser.close()
        job.stop()


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (LINES, 0o640, "others may use it (mode 0640); accepted: 0600 or 0400"),
        ("admin bearer short", 0o600, "line 1: the token is none; accepted: 16 characters"),
        ("", 0o600, "no credential in it"),
    ],
)
def test_a_file_of_credentials_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    path = credentials_file(tmp_path, text)
    path.chmod(mode)
    listens = ("--address", "127.0.0.1", "--port", "0", "--http", "127.0.0.1:0")
    done = call("coordinator", *listens, "--http-credentials", str(path))
    assert done.returncode != 0
    assert f"http_credentials {path}: {why}" in done.stderr
    assert "short" not in done.stderr
    read = call("top", "--json", "127.0.0.1:1", "--credentials", str(path))
    assert why in read.stderr


def test_a_wrong_credential_never_makes_a_rank_look_mute(tmp_path: Path) -> None:
    wrong = Access(authorization="Bearer wrong-0123456789abcdef")
    env = {"HOLDFAST_HTTP_CREDENTIALS": str(credentials_file(tmp_path))}
    with Job(tmp_path, "run_until_stopped", 1, coordinator=False, **env) as job:
        looking = job_of([job.where[0]], "")
        looking.access = wrong
        with pytest.raises(ConfigError, match="asks for a credential that it knows"):
            looking.look()
        with pytest.raises(ConfigError, match="asks for a credential that it knows"):
            status.fetch(job.where[0], access=wrong)
        job.stop()


# ---- TLS -----------------------------------------------------------------------------------------


def s_client(where: str, cert: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Debian's `openssl s_client` asks for /healthz."""
    _, host, port = split_address(where)
    asked = f"-connect {host}:{port} -CAfile {cert} -verify_return_error -ign_eof".split()
    return subprocess.run(
        ["openssl", "s_client", *asked, *arguments],
        input=b"GET /healthz HTTP/1.1\r\nHost: pages\r\n\r\n",
        capture_output=True,
        timeout=30,
    )


def check_strangers_are_closed(where: str, cert: Path, silent: socket.socket) -> None:
    """Who speaks no TLS 1.3 gets no page, and the next one is served as before."""
    _, host, port = split_address(where)
    good = s_client(where, cert)
    assert b"HTTP/1.1 200 OK" in good.stdout, good.stderr
    assert b"TLSv1.3" in good.stdout
    for old in ("-tls1_2", "-tls1_1"):
        refused = s_client(where, cert, old)
        assert refused.returncode != 0
        assert b"HTTP/1.1" not in refused.stdout
    for said in (
        b"GET /healthz HTTP/1.1\r\n\r\n",
        bytes(100),
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
    ):
        with socket.create_connection((host, port), 10) as stranger:
            answer = b""
            try:
                stranger.sendall(said)
                while part := stranger.recv(4096):
                    answer += part
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert b"HTTP" not in answer
    assert ask(f"https://{host}:{port}", "/healthz", cert=cert)[0] == 200
    # Who begins no handshake is hung up on within the time of a request.
    with silent:
        assert silent.recv(1) == b""


def check_prometheus_reads(job: Job, here: Path, cert: Path) -> None:
    """A real Prometheus, with what it has for that: `authorization` and `tls_config`."""
    token = credentials_file(here, OBSERVER, "token")
    reads = {
        "authorization": {"type": "Bearer", "credentials_file": str(token)},
        "tls_config": {"ca_file": str(cert), "server_name": "holdfast-pages"},
    }
    prometheus = Prometheus(here, job.pages.removeprefix("https://"), reads)
    job.keep(prometheus.process)
    found = eventually(lambda: len(prometheus.query("holdfast_members == 2")) == 2)
    assert found, prometheus.log.read_text()
    lost = [t for t in prometheus.ask("/api/v1/targets")["activeTargets"] if t["health"] == "down"]
    assert not lost


def test_pages_over_tls_are_read_by_all_who_read_pages(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    credentials = credentials_file(tmp_path)
    env = {
        "HOLDFAST_HTTP_CREDENTIALS": str(credentials),
        "HOLDFAST_HTTP_CERT": str(cert),
        "HOLDFAST_HTTP_KEY": str(key),
    }
    with Job(tmp_path, "work_and_rest", 2, **env) as job:
        assert job.pages.startswith("https://127.0.0.1:")
        assert job.where[0].startswith("https://127.0.0.1:")
        silent = socket.create_connection(split_address(job.where[0])[1:], 10)
        check_every_cell(job, cert)
        check_programs_read(job, credentials, "--ca", str(cert))
        if shutil.which("prometheus"):
            check_prometheus_reads(job, tmp_path, cert)
        check_strangers_are_closed(job.where[0], cert, silent)
        # Who is not believed is not called mute.
        doubted = call("doctor", job.where[0], "--credentials", str(credentials))
        assert "is not believed" in doubted.stderr
        told = call("top", "--json", job.pages, "--credentials", str(credentials))
        assert "is not believed" in told.stderr
        job.stop()


def test_a_certificate_counts_for_the_host_that_it_names(tmp_path: Path) -> None:
    for names in ("DNS:elsewhere.example", "IP:127.0.0.1", "IP:::1"):
        here = tmp_path / names.replace(":", "-")
        here.mkdir()
        cert, key = certificate(here, names)
        where = "[::1]:0" if "::1" in names else "127.0.0.1:0"
        env = {"HOLDFAST_HTTP_CERT": str(cert), "HOLDFAST_HTTP_KEY": str(key)}
        env["HOLDFAST_HTTP"] = where
        with Job(here, "run_until_stopped", 1, coordinator=False, **env) as job:
            if "IP" in names:
                assert ask(job.where[0], "/healthz", cert=cert)[0] == 200
            else:
                with pytest.raises(ssl.SSLCertVerificationError, match=r"names elsewhere\.example"):
                    ask(job.where[0], "/healthz", cert=cert)
            job.stop()


def test_pages_that_others_reach_do_not_start_without_their_lock(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    listens = ("coordinator", "--address", "127.0.0.1", "--port", "0", "--http", "0.0.0.0:0")
    credentials = ("--http-credentials", str(credentials_file(tmp_path)))
    tls = ("--http-cert", str(cert), "--http-key", str(key))
    for given, missing in (
        ((), "http_credentials, http_cert and http_key"),
        (credentials, "http_cert and http_key"),
        (tls, "http_credentials"),
    ):
        done = call(*listens, *given)
        assert done.returncode != 0
        assert f"is missing: {missing}; accepted: " in done.stderr
        assert "http_insecure=1 (HOLDFAST_HTTP_INSECURE=1)" in done.stderr
    half = call(*listens[:-1], "127.0.0.1:0", "--http-cert", str(cert))
    assert "http_cert is set without http_key" in half.stderr
    key.chmod(0o644)
    loose = call(*listens, *credentials, *tls)
    assert f"http_key {key}: others may use it (mode 0644)" in loose.stderr
    key.chmod(0o600)
    swapped = call(*listens, *credentials, "--http-cert", str(key), "--http-key", str(key))
    assert "the certificate is no PEM text" in swapped.stderr
    for given in ((*credentials, *tls), ("--http-insecure",)):
        process = subprocess.Popen([*HOLDFAST, *listens, *given], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert "listens on port" in process.stdout.readline()
            scheme = "https" if "--http-cert" in given else "http"
            assert f"pages at {scheme}://0.0.0.0:" in process.stdout.readline()
        finally:
            kill(process)
            process.communicate()


def test_a_rank_says_which_option_its_pages_lack(tmp_path: Path) -> None:
    env = {"HOLDFAST_HTTP": "0.0.0.0:0", "HOLDFAST_HTTP_CREDENTIALS": "nowhere"}
    rank = start_rank("health_ranks", "run_until_stopped", 0, 1, tmp_path, env)
    (outcome,) = finish([rank], 60)
    assert outcome.status != 0
    assert "ConfigError: option http = 0.0.0.0:0 lets others reach the pages" in outcome.output
    assert "is missing: http_cert and http_key; accepted: " in outcome.output
