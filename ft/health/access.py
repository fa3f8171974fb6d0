"""How pages are read: where they are, with which credential, and whose certificates are believed.

A connection goes to the address itself: no proxy, and no redirection, gets to see a credential.
"""

from __future__ import annotations

import argparse
import http.client
import ipaddress
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from holdfast import _core
from holdfast.errors import ConfigError
from holdfast.options import Options

# Certificates of pages may name this instead of a host: one for all ranks of a job.
ANY_PAGES = "holdfast-pages"
_HTTPS = "https://"


def split_address(where: str) -> tuple[bool, str, int]:
    """Return the parts of the address of pages.

    Parameters
    ----------
    where : str
        ``"host:port"``, or ``"https://host:port"`` where they have a certificate; an IPv6 address
        in brackets.

    Returns
    -------
    tuple of bool, str and int
        Whether they have one, the host, the port.

    Raises
    ------
    ValueError
        When it is something else.
    """
    host, _, port = where.removeprefix(_HTTPS).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host or "@" in host:
        raise ValueError(f"{where!r} is no address of pages")
    return where.startswith(_HTTPS), host.removeprefix("[").removesuffix("]"), int(port)


def _plain_name(name: str) -> str:
    """One spelling for a host: of an address of IPv6 there are several."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _certified_names(certificate: dict[str, Any]) -> set[str]:
    return {_plain_name(str(name)) for _, name in certificate.get("subjectAltName", ())}


class _Connection(http.client.HTTPSConnection):
    """Believes a certificate of the host that is called, or of the pages of any."""

    def __init__(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout_s, context=context)
        self._pages_context = context

    def connect(self) -> None:
        """Connect, and see who is there before a word is said."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        try:
            self.sock = self._pages_context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        names = _certified_names(self.sock.getpeercert() or {})
        called = _plain_name(self.host)
        wildcard = "*." + called.partition(".")[2]
        if not names & {called, wildcard, ANY_PAGES}:
            self.close()
            raise ssl.SSLCertVerificationError(
                f"the certificate names {', '.join(sorted(names)) or 'nobody'}; accepted: "
                f"{self.host}, or {ANY_PAGES}"
            )


def tls_context(trusted: str = "") -> ssl.SSLContext:
    """Return what TLS asks of the other side.

    Parameters
    ----------
    trusted : str
        File of certificates, in PEM, that are believed; empty: the system's.

    Returns
    -------
    ssl.SSLContext
        TLS 1.3, and a certificate that is believed; the name is left to the connection.

    Raises
    ------
    ConfigError
        When the file has no certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    if not trusted:
        context.load_default_certs()
        return context
    # A certificate that was named is believed though an authority has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(trusted)
    except OSError as error:
        raise ConfigError(f"{trusted}: no certificates in PEM ({error})") from None
    return context


@dataclass(frozen=True, slots=True)
class Access:
    """With what pages are read.

    Parameters
    ----------
    authorization : str
        Value of the header; empty: none.
    tls : ssl.SSLContext, optional
        Of :func:`tls_context`; default: what the system believes.
    """

    authorization: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    def connect(self, where: str, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection that is not open yet.

        Parameters
        ----------
        where : str
            As for :func:`split_address`.
        timeout_s : float
            Seconds for each step.

        Returns
        -------
        http.client.HTTPConnection
            To ask for a page.
        """
        is_sealed, host, port = split_address(where)
        if is_sealed:
            return _Connection(host, port, timeout_s, self.tls or tls_context())
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def headers(self) -> dict[str, str]:
        """Return what is sent with each request.

        Returns
        -------
        dict of str to str
            Headers.
        """
        return {"Authorization": self.authorization} if self.authorization else {}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that reads pages.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Of the command.
    """
    parser.add_argument(
        "--credentials",
        default=None,
        metavar="FILE",
        help="with a credential for the pages, as option http_credentials has it; the first admin "
        "in it is taken, or else the first (HOLDFAST_HTTP_CREDENTIALS)",
    )
    parser.add_argument(
        "--ca",
        default="",
        metavar="FILE",
        help="certificates, in PEM, that pages at https:// may have or be signed by "
        "(HOLDFAST_HTTP_CERT, or the system's)",
    )


def access_of(arguments: argparse.Namespace) -> Access:
    """Return how a command reads pages.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of :func:`add_arguments`.

    Returns
    -------
    Access
        From the arguments, and from the options for what they do not say.

    Raises
    ------
    ConfigError
        When a file cannot be used.
    """
    options = Options.from_env()
    given = arguments.credentials
    file = options.http_credentials if given is None else given
    authorization = _core.page_authorization(file) if file else ""
    trusted = arguments.ca or options.http_cert
    return Access(authorization, tls_context(trusted) if trusted else None)
