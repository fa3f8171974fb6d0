// Options of a process's runtime: one struct with defaults, validated once. Environment variables
// are read by the bindings only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "comm/communicator.h"
#include "ft/neighbours.h"
#include "runtime/time_slice.h"

namespace holdfast::topology {
class LinkMap;
}

namespace holdfast::runtime {

enum class ResetTrust : std::uint8_t { kNone, kLan };

struct Options {
  // Transports that may be used, best first. Accepted: "shm" inside a host, and, beside it or
  // alone, one that reaches other hosts: "tcp", or "ucx", which all ranks must have set alike.
  std::vector<std::string> transports = {"shm", "tcp"};
  // Time limit of an op, from start to end.
  Duration timeout = std::chrono::minutes(30);
  // Time limit for all members of a new group to appear.
  Duration connect_timeout = std::chrono::minutes(5);
  // Address to listen on and tell the others; empty: all interfaces. "0.0.0.0" is refused: no peer
  // can connect to it.
  std::string address;
  // TCP port to listen on; 0 lets the system choose.
  std::uint16_t port = 0;
  // Relays through which processes reach each other that cannot be called: "host:port" with commas
  // between them. Empty: the coordinator, where there is one and a secret or a token is used.
  std::string relay;
  // Processes with the same text count as on the same host; empty: boot id and IPC namespace. Tests
  // set it to play several hosts.
  std::string host_id;
  // Whether a link to another host is a trunk, which outlives its connections and may have several:
  // "auto", where a round trip takes 1 ms or more; "on"; "off".
  std::string trunk = "auto";
  // Most connections of a trunk.
  std::uint64_t lanes = 16;
  // Which ranks of a job are connected from the start: "full", each with all; "sparse", each with
  // its nearest ranks, and with others once an op needs it; "auto", full up to 32 ranks.
  std::string mesh = "auto";
  // The domains around the host, from the outside in: "site-a/rack-2". Empty: none is known.
  std::string domain;
  // Algorithm to use wherever it has a row for the collective; empty: the cost model chooses.
  std::string algorithm;
  // File with a table of plans, which says what algorithm is fastest where; empty: the cost model
  // with its built-in constants.
  std::string plan;
  // File with a map of links, one rank of the world each; empty: links count as alike.
  std::string topology;
  // How long a new group measures the links between its hosts before its first op; zero: it does
  // not. The Python face measures.
  Duration measure{};
  // Whether a plan that the table lacks is measured at its first use and, if `plan` names a file,
  // written there.
  bool tune = false;
  // Whether ops that a lost member cut off are repaired and go on among the survivors. Without it
  // the first loss ends the group; small ops then need not look at what other ranks hold.
  bool fault_tolerance = true;
  // What the loss of a member means: kContinue repairs the ops and goes on; kRaise fails them on
  // every survivor, from the same op on, until the next advance().
  comm::PeerLoss on_peer_loss = comm::PeerLoss::kContinue;
  // What it means that a gathered result lacks the block of a rank that is away: kRaise fails the
  // op on all survivors, and the group goes on; kZero leaves zeros there. Holds for calls that do
  // not say it themselves.
  comm::OnHole on_hole = comm::OnHole::kRaise;
  // Time between two signs of life.
  Duration heartbeat = std::chrono::milliseconds(500);
  // A peer from which nothing has come for so long is silent, and may be voted out; three
  // heartbeats or more. A peer on this host whose process lives and is not stopped is never silent.
  Duration silence = std::chrono::seconds(10);
  // With a secret, in place of `silence`: how long ops wait for a peer that is cut off, and of
  // which no proof says that its process has ended; three heartbeats or more.
  Duration grace = std::chrono::seconds(15);
  // Whether a connection that is closed from the other side proves that its process has ended:
  // kNone, never: the peer is called again to find out; kLan, always, which splits a group whose
  // connections are closed by a firewall or a lost mapping.
  ResetTrust trust_resets = ResetTrust::kNone;
  // Time slice of threads that wait for other ranks (time_slice.h), 100 us to 100 ms; zero: threads
  // keep their own.
  Duration time_slice = kShortestTimeSlice;
  // "host:port" or "host:port/NAME" of the job's coordinator, or "host:port,host:port/NAME" where
  // it is at one of several; empty: the lowest living rank coordinates.
  std::string coordinator;
  // "host:port" where /metrics, /healthz, /readyz and /flight are served; port 0 lets the system
  // choose, no host is loopback, "0.0.0.0" all interfaces. Empty: nothing is served.
  std::string http;
  // File of who may read the pages: lines "ROLE bearer TOKEN" and "ROLE basic USER PASSWORD", with
  // the role observer or admin. Empty: whoever reaches them may read all.
  std::string http_credentials;
  // Files, in PEM, of the certificate and of its key, by which pages are read over TLS. Empty: they
  // go as they are.
  std::string http_cert;
  std::string http_key;
  // Whether pages that others reach, on more than loopback, may lack what locks them.
  bool http_insecure = false;
  // File with the secret that all processes of the job share, by which their connections are
  // encrypted and authenticated: who has it is let in; or two files, with a comma between them,
  // while the first replaces the second. Empty: connections go as they are.
  std::string secret_file;
  // File with the token by which a coordinator lets this process into an elastic group, in place of
  // the secret.
  std::string token_file;
  // Such a token's text, in place of the file. It is no row of the table: it has no variable, and
  // nothing shows it.
  std::string token;
  // PEM files of a process's certificate, of its key, of the authorities that it believes and of
  // their revocation lists: by these a coordinator lets the process into an elastic group, in place
  // of a token; a coordinator takes certificates beside tokens.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string tls_crl;
  // Of a coordinator with a certificate: the file of who may do what in which run, by subject.
  std::string tls_roles;
  // "KEY:FOLDER", of whoever started this process and sees it end, as `holdfast run` does: its
  // public key in hex, and where this process leaves word of whom to tell. With a secret only.
  std::string witness;
  // File with a line of JSON for each caller that was let in or refused; empty: none.
  std::string audit_file;
  // Folder of the flight record, a file that outlives the process; empty: in memory only.
  std::string flight_dir;
  // Codec that sums and averages of floating elements travel in, from codec_min_bytes on; empty:
  // none. A lossless codec also carries data that is only moved; a lossy one never does unasked,
  // for copies carry parameters and states.
  std::string codec;
  std::uint64_t codec_min_bytes = 64 * 1024;
  // The driver of CUDA devices: "", the system's, opened when it is first needed; "emulated", a
  // device made of host memory, for tests; "none".
  std::string cuda_driver;
  // Pieces in which large collectives on device memory are copied and exchanged, so that one is
  // copied while another travels; all ranks alike.
  std::uint64_t cuda_slice_bytes = 4 * 1024 * 1024;
  // Whether ranks of one host read each other's device memory where it lies, from
  // cuda_ipc_min_bytes on: "auto", where their devices reach each other; "off". All ranks alike.
  std::string cuda_ipc = "auto";
  std::uint64_t cuda_ipc_min_bytes = 1024 * 1024;
  // Whether ops with a codec are encoded and decoded on the device, from cuda_codec_min_bytes on:
  // "auto", where that is possible; "off". All ranks alike.
  std::string cuda_codec = "auto";
  std::uint64_t cuda_codec_min_bytes = 1024 * 1024;
};

// Whether connections are sealed: by a secret, a token or a certificate.
bool is_sealed(const Options& options);
// How long nothing may come from a peer until it may be voted out: `silence`, or `grace` where
// connections are sealed.
Duration silence_of(const Options& options);
// The option mesh.
ft::Mesh mesh_of(const Options& options);
// kConfigError naming the option, the value, and what is accepted.
Status validate(const Options& options);
// The map of the option topology; nullptr without one.
Result<std::shared_ptr<const topology::LinkMap>> read_map(const Options& options);
// The table of the option plan; empty without one, and with option tune before the file is there.
Result<comm::PlanTable> read_plan(const Options& options);
// What all members of a group must have set alike, in one line.
std::string settings_text(const Options& options, const comm::PlanTable& plan);

}  // namespace holdfast::runtime
