// UCX pipe: sends frames as active messages of UCX, which carries them over InfiniBand or RoCE
// where available. Copies: one in by the sender and one out by the receiver, which for a reduction
// is the reduction itself; in between the network adapter reads and writes our own buffers. UCX
// could read callers' memory itself, but it cannot take back what it was given, while a cancelled
// post's memory is its owner's at once: after a repair it could send wrong data.
//
// UCX's library is opened when the transport is asked for; a build without UCX's headers has no
// UCX.
//
// Thread: only the holder of the runtime. No call blocks, except create().
// Why: docs/decisions/0108-ucx-beside-tcp.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/transport/link.h"

namespace holdfast::comm {

// Most bytes of a card, by which one side describes its end of a link to the other, as text without
// spaces.
inline constexpr std::size_t kMaxUcxCard = 8192;

class UcxWorker;

class UcxLink : public Link {
 public:
  std::string_view transport() const override { return "ucx"; }
  // Says how the peer reaches this end. The peer may send from now on: what it sends before
  // connect() is kept.
  virtual std::string card() const = 0;
  // Takes the peer's card; from now on frames go out. A malformed card makes the link fail.
  virtual void connect(const std::string& card) = 0;
  // The worker in whose progress() the link receives.
  virtual UcxWorker& worker() = 0;
};

// A process's UCX worker. There is one per runtime; it outlives its links.
class UcxWorker {
 public:
  // Returns kConfigError that names what is missing: UCX in this build, its library, or a feature
  // of it.
  static Result<std::unique_ptr<UcxWorker>> create();
  virtual ~UcxWorker() = default;

  virtual std::unique_ptr<UcxLink> make_link() = 0;
  // Lets UCX work: links receive, and their sends end. Whether anything happened.
  virtual bool progress() = 0;
  // Whether UCX still holds something that was sent.
  virtual bool busy() const = 0;
  // A descriptor that becomes readable when there is work, once arm() has said that there is none
  // now.
  virtual int fd() const = 0;
  virtual bool arm() = 0;
};

// The version of UCX's library here; kConfigError as create() returns it.
Result<std::string> ucx_version();

}  // namespace holdfast::comm
