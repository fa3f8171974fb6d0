// Catalogue of transports: one row each. Whoever has to do with transports (runtime, cards and
// greetings, options, metrics, the benchmark, `holdfast info`) iterates the rows and knows none by
// name; a test fails when a row is missing what it needs.
//
// A transport makes data paths: what carries data to one peer beside the control channel that both
// have already. The caller's greeting has an offer of each that the two may use, the answer has
// that of the first one which the answerer accepts, and both make the path from what the other has
// said. A transport without data paths is that control channel itself.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/transport/bell.h"
#include "comm/transport/stream_link.h"

namespace holdfast::comm {

enum class Reach : std::uint8_t {
  kHost,      // processes of one host
  kAnywhere,  // all that can be connected to
};

// What carries data to one peer.
class DataPath {
 public:
  virtual ~DataPath() = default;
  virtual Link& link() = 0;
  // The bell of the peer, which shares memory with this process; nothing: sockets wake it.
  virtual std::optional<Bell> bell() const { return std::nullopt; }
};

// A transport in use by a process. One per runtime; outlives its paths.
//
// Thread: only the holder of the runtime; nothing blocks.
class PathMaker {
 public:
  virtual ~PathMaker() = default;

  // Caller: what it says in the greeting to `callee`.
  virtual Result<std::string> offer(MemberId callee) = 0;
  // Answerer: what it says to an offer; empty: it does not accept.
  virtual std::string accept(MemberId caller, const std::string& offer) = 0;
  // After the greetings, either side: the path; `said` is what the other has answered or offered.
  // Null: there is none after all, and the control channel carries the data.
  virtual std::unique_ptr<DataPath> make(MemberId peer, const std::string& said, bool is_caller,
                                         StreamLink& control) = 0;
  // Offered to the peer or accepted in vain.
  virtual void forget(MemberId peer) = 0;
  // The process leaves: nothing that was offered stays behind in the system.
  virtual void stop() {}

  // Of one that has to be driven: becomes readable when there is work, once arm() has said that
  // there is none now. Negative: it works in its links' pump().
  virtual int fd() const { return -1; }
  virtual bool arm() { return true; }
  // Whether anything happened.
  virtual bool progress() { return false; }
  // Whether something was sent that it still holds.
  virtual bool busy() const { return false; }
};

// What a runtime lends its transports.
struct PathSettings {
  std::string bell;  // segment of this process's bell; empty: no other process can ring it
};

struct TransportRow {
  std::string_view name;   // in options, cards, metrics
  std::string_view title;  // for people
  Reach reach;
  // Ranks that name it differently would wait for each other: all must name it, or none.
  bool must_agree;
  std::size_t max_offer;  // bytes
  // Of a peer's control channel: a link over a connection that has greeted. Null: it carries none.
  std::unique_ptr<StreamLink> (*make_stream)(int fd);
  // kConfigError that names what is missing here, and null where the control channel does it all.
  Result<std::unique_ptr<PathMaker>> (*open)(const PathSettings& settings);
  // What is here of it, e.g. a library's version, may be empty; or why it cannot be used here.
  Result<std::string> (*look)();
};

inline constexpr std::size_t kTransportCount = 3;
// Best first among those that make paths.
std::span<const TransportRow, kTransportCount> transports();
// Its place in the catalogue; nothing: it is none of it.
std::optional<std::size_t> transport_index(std::string_view name);

}  // namespace holdfast::comm
