// Catalogue of transports, with one row for each. All code that deals with transports (runtime,
// cards and greetings, options, metrics, the benchmark, `holdfast info`) iterates the rows and
// knows no transport by name; a test fails when a row lacks something that they need.
//
// A transport makes data paths. A data path carries data to one peer beside the control channel
// that both sides have already. The caller's greeting has an offer for each transport that the two
// may use; the answer names the first one that the answerer accepts, with its own side's details;
// each side then makes the path from what the other has said. A transport without data paths is the
// control channel itself.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/transport/bell.h"
#include "comm/transport/stream_link.h"
#include "comm/transport/trunk/trunk_terms.h"

namespace holdfast::comm {

enum class Reach : std::uint8_t {
  kHost,      // processes of one host
  kAnywhere,  // any process that can be connected to
};

// A path that carries data to one peer.
class DataPath {
 public:
  virtual ~DataPath() = default;
  virtual Link& link() = 0;
  // The peer's bell, if the peer shares memory with this process; nothing: it is woken over its
  // sockets.
  virtual std::optional<Bell> bell() const { return std::nullopt; }
};

// A transport that a process uses. There is one per runtime; it outlives its paths.
//
// Thread: only the holder of the runtime; no call blocks.
class PathMaker {
 public:
  virtual ~PathMaker() = default;

  // On the calling side: the offer in the greeting to `callee`.
  virtual Result<std::string> offer(MemberId callee) = 0;
  // On the answering side: the answer to an offer; empty: it is not accepted.
  virtual std::string accept(MemberId caller, const std::string& offer) = 0;
  // On either side, after the greetings: makes the path; `said` is the other side's answer or
  // offer. Null: there is no path after all, and the control channel carries the data.
  virtual std::unique_ptr<DataPath> make(MemberId peer, const std::string& said, bool is_caller,
                                         StreamLink& control) = 0;
  // Forgets what was offered to the peer, or accepted from it, in vain.
  virtual void forget(MemberId peer) = 0;
  // Called when the process leaves: removes from the system all that was offered.
  virtual void stop() {}

  // The descriptor of a transport that has to be driven: it becomes readable when there is work,
  // once arm() has said that there is none now. Negative: the transport works in its links' pump().
  virtual int fd() const { return -1; }
  virtual bool arm() { return true; }
  // Does the work that there is; whether anything happened.
  virtual bool progress() { return false; }
  // Whether it still holds something that was sent.
  virtual bool busy() const { return false; }
};

// Resources that a runtime lends its transports.
struct PathSettings {
  std::string bell;  // segment of this process's bell; empty: no other process can ring it
};

struct TransportRow {
  std::string_view name;   // in options, cards, metrics
  std::string_view title;  // for people
  Reach reach;
  // Whether all ranks must name it, or none: otherwise ranks would wait for each other.
  bool must_agree;
  std::size_t max_offer;  // bytes
  // Makes a peer's control channel: a link over a connection whose two sides have greeted, and a
  // trunk if the terms have lanes. Null: the transport carries no control channels.
  std::unique_ptr<StreamLink> (*make_stream)(Connection connection, const TrunkTerms& terms);
  // Starts the transport: kConfigError names what is missing here, and a null result means that no
  // path can be made. `open` is null if the transport is a control channel only.
  Result<std::unique_ptr<PathMaker>> (*open)(const PathSettings& settings);
  // Describes what is available here, e.g. a library's version (may be empty), or says why the
  // transport cannot be used.
  Result<std::string> (*look)();
};

inline constexpr std::size_t kTransportCount = 3;
// Among the transports that make paths, the best come first.
std::span<const TransportRow, kTransportCount> transports();
// The transport's place in the catalogue; nothing: there is none of that name.
std::optional<std::size_t> transport_index(std::string_view name);

}  // namespace holdfast::comm
