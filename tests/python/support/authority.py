"""An authority for X.509 certificates, made by the `openssl` command."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

_CONFIG = """[ca]
default_ca = own
[own]
database = {here}/index.txt
new_certs_dir = {here}
certificate = {here}/ca.pem
private_key = {here}/ca.key
serial = {here}/serial
crlnumber = {here}/crlnumber
default_md = default
policy = any
unique_subject = no
default_days = 30
default_crl_days = 30
[any]
organizationName = optional
commonName = supplied
"""


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _date(seconds_from_now: float) -> str:
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds_from_now))


class Authority:
    """Files of an authority in a folder of its own.

    Parameters
    ----------
    folder : Path
        To be made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.pem = folder / "ca.pem"
        self.crl = folder / "ca.crl"
        (folder / "index.txt").touch()
        (folder / "serial").write_text("1000\n")
        (folder / "crlnumber").write_text("01\n")
        (folder / "config").write_text(_CONFIG.format(here=folder))
        made = f"-x509 -newkey ed25519 -nodes -days 30 -keyout {folder}/ca.key -out {self.pem}"
        _openssl("req", *made.split(), "-subj", "/O=Example/CN=authority")
        self.renew_list()

    def issue(
        self,
        name: str,
        *,
        usage: str = "clientAuth",
        hosts: str = "",
        begins: float = -3600,
        ends: float = 86400,
    ) -> dict[str, str]:
        """Make a certificate of CN=name,O=Example; returns the options with its files."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        pem, extensions = self.folder / f"{name}.pem", self.folder / f"{name}.ext"
        made = f"-new -newkey ed25519 -nodes -keyout {key} -out {request}"
        _openssl("req", *made.split(), "-subj", f"/O=Example/CN={name}")
        key.chmod(0o600)
        lines = [f"extendedKeyUsage={usage}"] * bool(usage)
        lines += [f"subjectAltName={hosts}"] * bool(hosts)
        extensions.write_text("\n".join(lines) + "\n")
        signed = f"-config {self.folder}/config -batch -notext -in {request} -out {pem}"
        dates = ("-startdate", _date(begins), "-enddate", _date(ends))
        _openssl("ca", *signed.split(), "-extfile", str(extensions), *dates)
        return {
            "HOLDFAST_TLS_CERT": str(pem),
            "HOLDFAST_TLS_KEY": str(key),
            "HOLDFAST_TLS_CA": str(self.pem),
        }

    def revoke(self, name: str) -> None:
        """Write a certificate into the list."""
        _openssl("ca", "-config", f"{self.folder}/config", "-revoke", f"{self.folder}/{name}.pem")
        self.renew_list()

    def renew_list(self) -> None:
        """Put a new list in the place of the last."""
        fresh = self.folder / "ca.crl.new"
        _openssl("ca", "-config", f"{self.folder}/config", "-gencrl", "-out", str(fresh))
        fresh.rename(self.crl)

    def number(self, name: str) -> str:
        """Return a certificate's serial number, as openssl prints it."""
        asked = ["openssl", "x509", "-noout", "-serial", "-in", f"{self.folder}/{name}.pem"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        return done.stdout.strip().removeprefix("serial=")
