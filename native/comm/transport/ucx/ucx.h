// UCX pipe: frames as active messages of UCX, which carries them over InfiniBand or RoCE where
// there is some. Copies: one in by the sender and one out by the receiver, which for a reduction is
// the reduction itself; in between the network adapter reads and writes our own buffers. It could
// move callers' memory itself, but UCX cannot take back what it was given, and a cancelled post's
// memory is its owner's at once: a repair would send what nobody meant.
//
// UCX's library is opened when it is asked for; a build without its headers has none of it.
//
// Thread: only the holder of the runtime. Nothing here blocks, but create().
// Why: docs/decisions/0108-ucx-beside-tcp.md
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "comm/transport/link.h"

namespace holdfast::comm {

// What one side tells the other of its end of a link, as text without spaces.
inline constexpr std::size_t kMaxUcxCard = 8192;

class UcxWorker;

class UcxLink : public Link {
 public:
  std::string_view transport() const override { return "ucx"; }
  // How the peer reaches this end, from now on: what it sends is kept before connect().
  virtual std::string card() const = 0;
  // The peer's card: from now on frames go out. A card that is none makes the link fail.
  virtual void connect(const std::string& card) = 0;
  // In whose progress() it receives.
  virtual UcxWorker& worker() = 0;
};

// All that a process does with UCX. One per runtime; outlives its links.
class UcxWorker {
 public:
  // kConfigError that names what is missing: UCX in this build, its library, what it can do.
  static Result<std::unique_ptr<UcxWorker>> create();
  virtual ~UcxWorker() = default;

  virtual std::unique_ptr<UcxLink> make_link() = 0;
  // Lets UCX work: links receive, and what they have sent ends. Whether anything happened.
  virtual bool progress() = 0;
  // Whether something was sent that UCX still holds.
  virtual bool busy() const = 0;
  // Becomes readable when there is work, once arm() has said that there is none now.
  virtual int fd() const = 0;
  virtual bool arm() = 0;
};

// Version of UCX's library here; kConfigError as create().
Result<std::string> ucx_version();

}  // namespace holdfast::comm
