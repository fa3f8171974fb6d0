"""Elastic groups: peers that join and leave at will."""

from __future__ import annotations

import dataclasses

from holdfast import _process
from holdfast.comm.group import Group
from holdfast.errors import ConfigError
from holdfast.options import Options

_SCHEME = "holdfast://"
_NAME = "elastic"


def join(
    url: str,
    token: str | None = None,
    min_peers: int = 1,
    options: Options | None = None,
    timeout: float | None = None,
) -> Group:
    """Join an elastic group through its coordinator.

    Returns when the group begins, or, when it runs already, at its members' next step boundary;
    connections to all of them are there before. The peer gets the lowest rank that is free; ranks
    that nobody has count as missing.

    Parameters
    ----------
    url : str
        ``holdfast://host:port``, or ``holdfast://host:port/NAME`` where the coordinator has several
        groups. `holdfast coordinator` runs one. Where it may be at one of several addresses, up to
        eight: ``holdfast://a:29400,b:29400/NAME``, the same for all peers, in any order.
    token : str, optional
        By which the coordinator lets this process in, as `holdfast token new` prints it; ``url``
        names the token's run, or none. Default: that of option token_file. A job whose processes
        share its secret (option secret_file) needs none.
    min_peers : int
        A group that nobody has formed yet begins when so many have come.
    options : Options, optional
        Default: from the environment. Its `coordinator` gives way to `url`.
    timeout : float, optional
        Seconds; default: option connect_timeout.

    Returns
    -------
    Group
        Leave it with ``leave()``, or use it as a context manager.

    Raises
    ------
    ConfigError
        For a url or number that cannot be used, or a url with other addresses than the peers'.
    AuthFailed
        When the coordinator does not let this process in, with its reason: the token is revoked,
        has expired, or was used as often as it says.
    NotMember
        With the coordinator's refusal.
    ProtocolError
        When what answers at the address is no coordinator.
    Timeout
        When nobody answers there, or the group did not begin or admit in time.
    """
    if not url.startswith(_SCHEME):
        raise ConfigError(
            f"url = {url!r}; accepted: holdfast://host:port or .../NAME, or up to 8 host:port "
            "with commas between"
        )
    if min_peers < 1:
        raise ConfigError(f"min_peers = {min_peers}; accepted: 1 and more")
    chosen = Options.from_env() if options is None else options
    chosen = dataclasses.replace(chosen, coordinator=url.removeprefix(_SCHEME))
    node = _process.node(chosen, token or "")
    limit = chosen.connect_timeout if timeout is None else timeout
    group = Group(node.join_elastic(_NAME, min_peers, limit, chosen.timeout), node)
    group._measure_first(chosen.measure)
    return group
