"""Options: one value object with defaults, from arguments or from the environment."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast import _core
from holdfast._option_values import LONGEST_S, Row, checked, parse
from holdfast.compress.codec import Codec, codec_text
from holdfast.errors import ConfigError

PREFIX = "HOLDFAST_"
# Variables with this prefix that are no options: how ranks find each other, how torch is found.
_OTHER = frozenset({"HOLDFAST_JOB", "HOLDFAST_STORE", "HOLDFAST_TORCH_DIR"})


_ROWS = {row[0]: Row(*row) for row in _core.option_rows()}
# Of the option on_hole, and of calls that say it themselves.
HOLES = tuple(_ROWS["on_hole"].words)
# With what a variable is right, as far as it alone can tell: a plan may be about to be made, and
# silence and grace are three heartbeats or more. All options together tell the rest.
_BESIDE: dict[str, dict[str, object]] = {
    "plan": {"tune": True},
    "heartbeat": {"silence": LONGEST_S},
    "silence": {"heartbeat": 0.001},
    "grace": {"heartbeat": 0.001},
}


_USUAL: dict[str, Any] = {row.name: parse(row, row.usual) for row in _ROWS.values()}


@dataclass(frozen=True, slots=True)
class Options:
    """How a process takes part in its groups. Bad values are refused when it is made.

    Parameters
    ----------
    transports : tuple of str
        Transports that may be used: ``"shm"`` inside a host, and beside it or alone one that goes
        everywhere: ``"tcp"``, or ``"ucx"`` for InfiniBand and RoCE, which needs UCX's library
        (``holdfast info`` says whether it is there) and is to be set on all ranks.
        ``HOLDFAST_TRANSPORTS``, comma separated.
    timeout : float
        Time limit of an op in seconds, from start to end. ``HOLDFAST_TIMEOUT``.
    connect_timeout : float
        Time limit in seconds for all members of a new group to appear.
        ``HOLDFAST_CONNECT_TIMEOUT``.
    address : str
        Numeric address to listen on; empty: loopback where the launcher, the store or the
        coordinator says that all ranks are on this host, else all interfaces.
        ``HOLDFAST_ADDRESS``.
    port : int
        TCP port to listen on; 0 lets the system choose. ``HOLDFAST_PORT``.
    relay : str
        Relays (``holdfast relay``) through which ranks reach each other where one cannot call the
        other, as behind NATs: ``"host:port"``, up to four with commas between; needs a secret or a
        token. Empty: the coordinator, where there is one and a secret or a token is used.
        ``HOLDFAST_RELAY``.
    host_id : str
        Who counts as "the same host"; empty: found out. ``HOLDFAST_HOST_ID``.
    trunk : str
        Whether a link to another host is a trunk, which goes on when its connections break, and has
        several where they carry more than one: ``"auto"``: where a round trip takes 1 ms or more;
        ``"on"``; ``"off"``. ``HOLDFAST_TRUNK``.
    lanes : int
        Most connections of a trunk, 1 to 16. ``HOLDFAST_LANES``.
    mesh : str
        Which ranks of a job are connected from the start. ``"full"``: each with all. ``"sparse"``:
        each with its two nearest ranks on either side and the coordinating one, and with any other
        once an op or a message needs it; such ranks share no memory as a whole. ``"auto"``: full
        up to 32 ranks. ``HOLDFAST_MESH``.
    domain : str
        Where this host is, from the outside in: ``"site-a/rack-2"``, at most 7 names; empty: not
        known. Algorithms of two levels go by the innermost level with several ranks to a domain,
        and maps that ``measure()`` makes name these domains. ``HOLDFAST_DOMAIN``.
    algorithm : str
        Algorithm to use wherever it serves; empty: the cost model chooses.
        ``HOLDFAST_ALGORITHM``.
    plan : str
        File with a table of plans (``holdfast plan``), which says what algorithm is fastest where;
        empty: the cost model with built-in constants. ``HOLDFAST_PLAN``.
    topology : str
        File with a map of the world's links, by which large all_reduce, broadcast and reduce
        between hosts go along weighted trees; empty: links count as alike. ``HOLDFAST_TOPOLOGY``.
    measure : float
        Seconds, up to 600, in which a group of several hosts measures its links as soon as it is
        complete, before its first op, and agrees on the map of what it found, as
        ``Group.measure()`` does; 0: it does not. Ranks that come in later are given the map. In
        programs in C and of MPI it does nothing. ``HOLDFAST_MEASURE``.
    tune : bool
        Measure at its first use what the table lacks, and, with a file, write it there. Such a
        first call takes some tens of others' time. ``HOLDFAST_TUNE``, 1 or 0.
    fault_tolerance : bool
        Repair ops that a lost rank cut off, and go on among the survivors. Without it the first
        loss ends the group. ``HOLDFAST_FAULT_TOLERANCE``, 1 or 0.
    on_peer_loss : str
        What a loss means: ``"continue"``, or ``"raise"`` PeerLost on every survivor, from the same
        op on, until ``advance()``. ``HOLDFAST_ON_PEER_LOSS``.
    on_hole : str
        What it means that a gathered result (all_gather, all_to_all, gather) lacks the block of a
        rank that is away: ``"raise"`` PeerLost on every survivor, naming those ranks, while the
        group goes on; or ``"zero"``: zeros there, and the ranks in the outcome. Reductions have no
        holes. Calls can say it themselves. ``HOLDFAST_ON_HOLE``.
    heartbeat : float
        Seconds between two signs of life. ``HOLDFAST_HEARTBEAT``.
    silence : float
        Seconds after which a rank of which nothing comes is silent, and may be voted out; three
        heartbeats or more. A rank of the same host whose process lives and is not stopped never
        is, however long it waits for its turn on a core. With a secret ``grace`` counts in its
        place. ``HOLDFAST_SILENCE``.
    grace : float
        Seconds that ops wait, with a secret, a token or a certificate, for a rank that is cut off
        and of which nothing proves that its process has ended; then the coordinator decides, or the
        majority. Three heartbeats or more. ``HOLDFAST_GRACE``.
    trust_resets : str
        Whether a connection that is closed from the other side proves that its process has ended:
        ``"none"``: no; the process is asked for, and the connection made again. ``"lan"``: yes.
        Unsafe: where a firewall, or an address translation that forgets, closes the connections of
        living ranks, both sides go on alone. With a secret it is refused.
        ``HOLDFAST_TRUST_RESETS``.
    time_slice : float
        Seconds, 0.0001 to 0.1: the pieces in which threads that wait for other ranks get their
        share of a core, which stays what it was. With short ones a rank that is woken beside a
        busy process, or beside other ranks, goes on at once (Linux 6.12 or newer; nothing happens
        elsewhere). 0 leaves threads as they are. ``HOLDFAST_TIME_SLICE``.
    coordinator : str
        ``"host:port"`` or ``"host:port/NAME"`` of the job's coordinator, or up to eight
        ``"host:port,host:port/NAME"`` where it is at one of several, the same on all ranks; empty:
        the lowest living rank does its work. ``HOLDFAST_COORDINATOR``.
    http : str
        ``"host:port"`` where this process serves ``/metrics``, ``/healthz``, ``/readyz`` and
        ``/flight``; port 0 lets the system choose, no host is loopback, ``0.0.0.0`` all interfaces;
        empty: nowhere. ``HOLDFAST_HTTP``.
    http_credentials : str
        File, of mode 0600, of who may read the pages: lines ``ROLE bearer TOKEN`` and ``ROLE basic
        USER PASSWORD``. The role ``observer`` reads metrics and status, ``admin`` stacks and flight
        records, too. Empty: whoever reaches the pages reads all. ``HOLDFAST_HTTP_CREDENTIALS``.
    http_cert : str
        File, in PEM, with the certificate by which pages are served over TLS 1.3, as https, and
        those between it and its authority; empty: they go as they are. ``HOLDFAST_HTTP_CERT``.
    http_key : str
        File, of mode 0600, with that certificate's key in PEM, without a password.
        ``HOLDFAST_HTTP_KEY``.
    http_insecure : bool
        Whether pages may be served on more than loopback without what locks them.
        ``HOLDFAST_HTTP_INSECURE``, 1 or 0.
    secret_file : str
        File with the secret that all processes of a job share, its coordinator included, as
        ``holdfast secret FILE`` makes it. TLS 1.3 then encrypts their connections, and keeps
        everybody else out; data in shared memory stays as it is. Two files with a comma between
        them while the first replaces the second. Empty: connections go as they are.
        ``HOLDFAST_SECRET_FILE``.
    token_file : str
        File with the token by which a coordinator lets this process into an elastic group, in place
        of the secret, as ``holdfast token new`` prints it. ``HOLDFAST_TOKEN_FILE``.
    tls_cert : str
        File, in PEM, with the certificate by which a coordinator lets this process into an elastic
        group, in place of a token, and those between it and its authority. ``HOLDFAST_TLS_CERT``.
    tls_key : str
        File, of mode 0600, with that certificate's key in PEM, without a password.
        ``HOLDFAST_TLS_KEY``.
    tls_ca : str
        File, in PEM, with the authorities that this process believes. ``HOLDFAST_TLS_CA``.
    tls_crl : str
        File, in PEM, with the revocation lists of those authorities; while it cannot be used,
        nobody new is believed. Empty: no list is asked. ``HOLDFAST_TLS_CRL``.
    tls_roles : str
        File, of a coordinator, of who may do what by a certificate: lines ``ROLE RUN SUBJECT``,
        with the subject as RFC 2253 writes it. ``HOLDFAST_TLS_ROLES``.
    witness : str
        ``"KEY:FOLDER"``: whoever started this process, waits for it, and tells the others of its
        end, where there is a secret; ``holdfast run`` sets it. Its public key, and the folder where
        this process says where they are. Empty: nobody. ``HOLDFAST_WITNESS``.
    audit_file : str
        File with a line of JSON for each caller that was let in or refused: when, from where, by
        which token or certificate and key, and why not. At most ten lines a second after the first
        hundred, and four files of 4 MiB. Empty: none. ``HOLDFAST_AUDIT_FILE``.
    flight_dir : str
        Folder of the flight record, a file of the last ops that outlives the process; empty: in
        memory only. ``HOLDFAST_FLIGHT_DIR``.
    codec : str or Codec
        What sums and averages of floating elements travel as: ``"int8"``, ``holdfast.Codec(...)``;
        empty: as they are. Copies, integers and small arrays never use it. There is no error
        feedback: with one bit models do not learn. A lossless one, ``"bfloat"`` or ``"zstd"``,
        also carries what all_gather, broadcast and all_to_all of equal blocks move, of every dtype
        that it takes. ``HOLDFAST_CODEC``, for example ``int8(block=64,stochastic)``.
    codec_min_bytes : int
        From how many bytes on. ``HOLDFAST_CODEC_MIN_BYTES``.
    cuda_driver : str
        Whose GPUs: empty: the system's CUDA driver, opened when a GPU's memory is first passed;
        ``"emulated"``: a device made of host memory, for tests; ``"none"``.
        ``HOLDFAST_CUDA_DRIVER``.
    cuda_slice_bytes : int
        Pieces in which large collectives on a GPU's memory are copied and exchanged, so that one
        is copied while another travels; all ranks alike. ``HOLDFAST_CUDA_SLICE_BYTES``.
    cuda_ipc : str
        Whether ranks of one host read each other's device memory where it lies: ``"auto"``, where
        their GPUs reach each other; ``"off"``: always through the host. All ranks alike.
        ``HOLDFAST_CUDA_IPC``.
    cuda_ipc_min_bytes : int
        From how many bytes on. ``HOLDFAST_CUDA_IPC_MIN_BYTES``.
    cuda_codec : str
        Whether collectives with a codec on a GPU's memory are encoded and decoded by the GPU, so
        that its bus carries frames only: ``"auto"``, where it can; ``"off"``: by the processor.
        All ranks alike. ``HOLDFAST_CUDA_CODEC``.
    cuda_codec_min_bytes : int
        From how many bytes on, before they are encoded. ``HOLDFAST_CUDA_CODEC_MIN_BYTES``.

    Raises
    ------
    ConfigError
        Naming the option, its value, and what is accepted.
    """

    transports: tuple[str, ...] = _USUAL["transports"]
    timeout: float = _USUAL["timeout"]
    connect_timeout: float = _USUAL["connect_timeout"]
    address: str = _USUAL["address"]
    port: int = _USUAL["port"]
    relay: str = _USUAL["relay"]
    host_id: str = _USUAL["host_id"]
    trunk: str = _USUAL["trunk"]
    lanes: int = _USUAL["lanes"]
    mesh: str = _USUAL["mesh"]
    domain: str = _USUAL["domain"]
    algorithm: str = _USUAL["algorithm"]
    plan: str = _USUAL["plan"]
    topology: str = _USUAL["topology"]
    measure: float = _USUAL["measure"]
    tune: bool = _USUAL["tune"]
    fault_tolerance: bool = _USUAL["fault_tolerance"]
    on_peer_loss: str = _USUAL["on_peer_loss"]
    on_hole: str = _USUAL["on_hole"]
    heartbeat: float = _USUAL["heartbeat"]
    silence: float = _USUAL["silence"]
    grace: float = _USUAL["grace"]
    trust_resets: str = _USUAL["trust_resets"]
    time_slice: float = _USUAL["time_slice"]
    coordinator: str = _USUAL["coordinator"]
    http: str = _USUAL["http"]
    http_credentials: str = _USUAL["http_credentials"]
    http_cert: str = _USUAL["http_cert"]
    http_key: str = _USUAL["http_key"]
    http_insecure: bool = _USUAL["http_insecure"]
    secret_file: str = _USUAL["secret_file"]
    token_file: str = _USUAL["token_file"]
    tls_cert: str = _USUAL["tls_cert"]
    tls_key: str = _USUAL["tls_key"]
    tls_ca: str = _USUAL["tls_ca"]
    tls_crl: str = _USUAL["tls_crl"]
    tls_roles: str = _USUAL["tls_roles"]
    witness: str = _USUAL["witness"]
    audit_file: str = _USUAL["audit_file"]
    flight_dir: str = _USUAL["flight_dir"]
    codec: str | Codec = _USUAL["codec"]
    codec_min_bytes: int = _USUAL["codec_min_bytes"]
    cuda_driver: str = _USUAL["cuda_driver"]
    cuda_slice_bytes: int = _USUAL["cuda_slice_bytes"]
    cuda_ipc: str = _USUAL["cuda_ipc"]
    cuda_ipc_min_bytes: int = _USUAL["cuda_ipc_min_bytes"]
    cuda_codec: str = _USUAL["cuda_codec"]
    cuda_codec_min_bytes: int = _USUAL["cuda_codec_min_bytes"]

    def __post_init__(self) -> None:
        """Bring values to their types and refuse what cannot work."""
        if self.codec != "":
            object.__setattr__(self, "codec", codec_text(self.codec))
        for row in _ROWS.values():
            object.__setattr__(self, row.name, checked(row, getattr(self, row.name)))
        _core.validate(self.native())

    def native(self) -> _core.Options:
        """Return the same values for the runtime.

        Returns
        -------
        _core.Options
            The native options.
        """
        options = _core.Options()
        for name in _ROWS:
            options.set(name, getattr(self, name))
        return options

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Options:
        """Read the options from ``HOLDFAST_*`` variables; the rest keeps its default.

        Parameters
        ----------
        env : mapping, optional
            The variables; default: this process's environment.

        Returns
        -------
        Options
            Validated options.

        Raises
        ------
        ConfigError
            Naming the variable, its value, and what is accepted.
        """
        env = os.environ if env is None else env
        values: dict[str, object] = {}
        for name, row in _ROWS.items():
            variable = row.variable
            text = env.get(variable, "").strip()
            if text == "":
                continue
            try:
                values[name] = parse(row, text)
                cls(**{name: values[name], **_BESIDE.get(name, {})})  # type: ignore[arg-type]
            except ConfigError as error:
                accepted = str(error).partition("; accepted: ")[2]
                raise ConfigError(f"{variable} = {text!r}; accepted: {accepted}") from None
        _warn_of_unknown(env)
        return cls(**values)  # type: ignore[arg-type]


def variables() -> dict[str, str]:
    """Return the environment variable of each option.

    Returns
    -------
    dict of str to str
        By the option's name.
    """
    return {row.name: row.variable for row in _ROWS.values()}


def _warn_of_unknown(env: Mapping[str, str]) -> None:
    known = variables()
    for variable in env:
        if not variable.startswith(PREFIX) or variable in (*known.values(), *_OTHER):
            continue
        name = variable.removeprefix(PREFIX).lower()
        close = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"did you mean {known[close[0]]}?" if close else f"known: {', '.join(known.values())}"
        )
        warnings.warn(f"{variable} is no option of Holdfast; {hint}", stacklevel=3)
