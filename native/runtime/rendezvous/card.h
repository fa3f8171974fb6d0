// Card: what a member tells the others of a group about itself through the store, and what it says
// in the greeting of a connection. Both come from outside: parsing is total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace holdfast::runtime {

struct Card {
  MemberId member;
  std::string host;
  std::vector<std::string> addresses;  // numeric, best first
  std::uint16_t port = 0;
  bool shm = false;         // may use shared memory
  std::string bell;         // segment of its bell; empty without shm
  std::string flat;         // segment of its flat area in this group; empty without shm
  std::string http;         // "host:port" of its health pages; empty: none
  std::string settings;     // what all members must have set alike; empty: nothing
  std::uint64_t nonce = 0;  // rank 0's becomes the communicator's id
};

// kConfigError when the two have set differently what members must have set alike.
Status check_settings(const Card& own, Rank self, const Card& other, Rank rank,
                      const std::string& group);

std::string encode_card(const Card& card);
// kProtocolError: damaged, or of another protocol version (naming both).
Result<Card> parse_card(const std::string& text);

// First payload on a connection, and its answer.
struct Greeting {
  MemberId from;
  MemberId to;
  ProcessId process;  // that says it
  // Caller: it has what carried the two's data before. Answerer: so have both, and they keep it.
  bool keeps = false;
  std::string bell;  // caller's or answerer's bell segment; empty: no shared memory
  std::string link;  // segment of the link, made by the caller; empty: no shared memory
  std::string ucx;   // card of the end of a UCX link; empty: none
};

inline constexpr std::size_t kMaxGreetingBytes = 1024 + 8192;

std::vector<std::byte> encode_greeting(const Greeting& greeting);
Result<Greeting> parse_greeting(std::span<const std::byte> bytes);

}  // namespace holdfast::runtime
