// Card: what a member tells the others of a group about itself through the store, and what it says
// in the greeting of a connection. Both come from outside: parsing is total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "base/result.h"

namespace holdfast::runtime {

// Whether others can call a process, as far as it knows.
enum class CalledBy : std::uint8_t { kUnknown, kDirectly, kByRelay };

struct Card {
  MemberId member;
  std::string host;
  std::string domain;                  // of the host, as the option domain; empty: not known
  std::vector<std::string> addresses;  // numeric, best first
  std::uint16_t port = 0;
  std::vector<std::string> transports;  // those that make paths for it (comm/transport/catalogue.h)
  std::string flat;  // segment of its flat area in this group; empty: it shares no memory
  // Where the coordinator of its job may be, as one sorted text; empty: not at several addresses.
  std::string coordinators = {};
  std::string witness = {};  // public key, in hex, of whoever sees its process end; empty: nobody
  CalledBy called = CalledBy::kUnknown;
  std::string http;         // "host:port" or "https://host:port" of its health pages; empty: none
  std::string settings;     // what all members must have set alike; empty: nothing
  std::uint64_t nonce = 0;  // rank 0's becomes the communicator's id
};

// Whether it is empty, or names of domains as the option domain has them.
bool are_domain_names(std::string_view text);

// Members that name several addresses of a coordinator all name the same ones: one that did not
// would lose its coordinator to an address that it does not know. `who`: whose card the other is.
// kConfigError with both texts.
Status check_coordinators(const Card& own, const Card& other, const std::string& who);

// kConfigError when two members have set an option differently that all must have set alike.
Status check_settings(const Card& own, Rank self, const Card& other, Rank rank,
                      const std::string& group);

std::string encode_card(const Card& card);
// kProtocolError: damaged, or of another protocol version (naming both).
Result<Card> parse_card(const std::string& text);
// The host that the card names; empty: it cannot be read.
std::string host_in_card(const std::string& text);

// What one side of a connection says of a transport: the caller makes an offer, the answerer an
// answer.
struct Offer {
  std::string transport;
  std::string text;  // in the transport's own format
  friend bool operator==(const Offer&, const Offer&) = default;
};

// The first payload on a connection in either direction: the caller's hello and the answerer's
// welcome.
struct Greeting {
  MemberId from;
  MemberId to;
  ProcessId process;  // the sender's
  // Caller: it still has the path that carried their data before. Answerer: both have, and keep it.
  bool keeps = false;
  std::vector<Offer> offers;  // each transport once; an answer has one at most
  // On a sealed connection: how the sender shows who it is (papers.h). Empty: the seal says enough.
  std::vector<std::byte> papers = {};
  // Of a caller that joins: what it asks the coordinator (ft/joining.h), so that the answer follows
  // the welcome. Empty: nothing yet.
  std::vector<std::byte> opening = {};
  // Of a trunk: the most lanes that the sender gives it (0: the link is to be one connection), and
  // its id, which the caller chooses.
  std::uint8_t lanes = 0;
  std::uint64_t trunk = 0;
  // Caller: the path is long enough for a trunk to be worth its copies.
  bool far = false;
  // Caller: this connection is to be a further lane of that trunk. Answerer: it has become one.
  bool joins = false;
  // Of a caller that joins a trunk over a sealed connection: that it has the key of the first one.
  std::vector<std::byte> proof = {};
};

inline constexpr std::size_t kMaxLaneProof = 32;

// Room for a pass and the keys that sign passes, or for why somebody is refused.
inline constexpr std::size_t kMaxPaperBytes = 512;

// Room for a card and the name of a group.
inline constexpr std::size_t kMaxOpeningBytes = 6144;

// Room for an offer of each transport.
inline constexpr std::size_t kMaxGreetingBytes = 1024 + kMaxPaperBytes + kMaxOpeningBytes + 8192;

std::vector<std::byte> encode_greeting(const Greeting& greeting);
Result<Greeting> parse_greeting(std::span<const std::byte> bytes);

}  // namespace holdfast::runtime
