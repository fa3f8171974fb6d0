#include "runtime/rendezvous/card.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>

#include "base/bytes.h"
#include "comm/transport/catalogue.h"
#include "comm/transport/frame.h"
#include "comm/transport/trunk/trunk_terms.h"
#include "topology/link_map.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMaxCardBytes = 4096;
constexpr std::size_t kMaxAddresses = 16;
// Limits of a greeting.
constexpr std::size_t kMaxOffers = 16;
constexpr std::size_t kMaxTransportName = 32;

Status damaged(const std::string& what) {
  return {Code::kProtocolError, "damaged member card in the store: " + what};
}

// Reads lines of "key=value".
std::map<std::string, std::string> read_lines(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) fields[line.substr(0, equals)] = line.substr(equals + 1);
    at = end + 1;
  }
  return fields;
}

template <class T>
bool read_number(const std::map<std::string, std::string>& fields, const char* key, T& value) {
  const auto found = fields.find(key);
  if (found == fields.end()) return false;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string read_text(const std::map<std::string, std::string>& fields, const char* key) {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string{} : found->second;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= text.size() && !text.empty()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : std::string(1, separator)) + part;
  return text;
}

// By CalledBy; empty: it is not known.
constexpr std::array<std::string_view, 3> kCalledNames = {"", "yes", "by relay"};

}  // namespace

bool are_domain_names(std::string_view text) {
  if (text.empty()) return true;
  std::size_t names = 0;
  while (true) {
    const std::string_view name = text.substr(0, text.find('/'));
    const bool printable =
        std::ranges::all_of(name, [](unsigned char c) { return std::isprint(c) != 0 && c != '='; });
    if (name.empty() || name.size() > topology::kMostMapNameBytes || !printable) return false;
    if (++names == topology::kMostDomainDepth) return false;  // the host is the last one
    if (name.size() == text.size()) return true;
    text.remove_prefix(name.size() + 1);
  }
}

Status check_coordinators(const Card& own, const Card& other, const std::string& who) {
  if (own.coordinators == other.coordinators) return Status::ok();
  const auto named = [](const Card& card) {
    return card.coordinators.empty() ? "one address at most" : card.coordinators;
  };
  return {Code::kConfigError, who + " names " + named(other) +
                                  " as where its coordinator may be, and this process " +
                                  named(own) +
                                  "; accepted: the same addresses everywhere, in any order (option "
                                  "coordinator)"};
}

Status check_settings(const Card& own, Rank self, const Card& other, Rank rank,
                      const std::string& group) {
  TRY(check_coordinators(own, other, "group " + group + ": rank " + std::to_string(rank.value)));
  if (other.settings.empty() || other.settings == own.settings) return Status::ok();
  return Status(Code::kConfigError, "group " + group + ": rank " + std::to_string(rank.value) +
                                        " has set " + other.settings + "; rank " +
                                        std::to_string(self.value) + " has set " + own.settings +
                                        ". Set the same on all ranks")
      .about({rank}, {});
}

std::string encode_card(const Card& card) {
  return "version=" + std::to_string(comm::kProtocolVersion) +
         "\nmember=" + std::to_string(card.member.value) + "\nhost=" + card.host +
         "\naddresses=" + join(card.addresses, ',') + "\nport=" + std::to_string(card.port) +
         "\ntransports=" + join(card.transports, ',') + "\nflat=" + card.flat +
         (card.coordinators.empty() ? "" : "\ncoordinators=" + card.coordinators) +
         (card.witness.empty() ? "" : "\nwitness=" + card.witness) +
         (card.called == CalledBy::kUnknown
              ? ""
              : "\ncalled=" + std::string(kCalledNames[static_cast<std::size_t>(card.called)])) +
         (card.http.empty() ? "" : "\nhttp=" + card.http) +
         (card.domain.empty() ? "" : "\ndomain=" + card.domain) + "\nsettings=" + card.settings +
         "\nnonce=" + std::to_string(card.nonce) + "\n";
}

Result<Card> parse_card(const std::string& text) {
  if (text.size() > kMaxCardBytes) return damaged("too long");
  const auto fields = read_lines(text);
  unsigned version = 0;
  if (!read_number(fields, "version", version)) return damaged("no version");
  if (version != comm::kProtocolVersion) {
    return Status{Code::kProtocolError, "speaks protocol version " + std::to_string(version) +
                                            ", this side version " +
                                            std::to_string(comm::kProtocolVersion) +
                                            "; install the same Holdfast everywhere"};
  }
  Card card;
  if (!read_number(fields, "member", card.member.value)) return damaged("no member id");
  if (!read_number(fields, "port", card.port)) return damaged("no port");
  if (!read_number(fields, "nonce", card.nonce)) return damaged("no nonce");
  card.host = read_text(fields, "host");
  card.domain = read_text(fields, "domain");
  if (!are_domain_names(card.domain)) return damaged("domain");
  card.addresses = split(read_text(fields, "addresses"), ',');
  const auto& addresses = card.addresses;
  const bool gap = std::find(addresses.begin(), addresses.end(), "") != addresses.end();
  if (addresses.empty() || addresses.size() > kMaxAddresses || gap) return damaged("addresses");
  card.transports = split(read_text(fields, "transports"), ',');
  card.flat = read_text(fields, "flat");
  card.coordinators = read_text(fields, "coordinators");
  card.witness = read_text(fields, "witness");
  const auto called = std::ranges::find(kCalledNames, read_text(fields, "called"));
  if (called == kCalledNames.end()) return damaged("called");
  card.called = static_cast<CalledBy>(called - kCalledNames.begin());
  card.http = read_text(fields, "http");
  card.settings = read_text(fields, "settings");
  return card;
}

std::string host_in_card(const std::string& text) {
  const auto card = parse_card(text);
  return card.is_ok() ? card.value().host : std::string{};
}

std::vector<std::byte> encode_greeting(const Greeting& greeting) {
  Writer w;
  w.number(greeting.from.value);
  w.number(greeting.to.value);
  w.number(greeting.process.realm);
  w.number(greeting.process.number);
  w.number(greeting.process.started);
  w.number(static_cast<std::uint8_t>(greeting.keeps));
  w.list(greeting.offers, [&](const Offer& offer) {
    w.text(offer.transport);
    w.text(offer.text);
  });
  w.bytes(greeting.papers);
  w.bytes(greeting.opening);
  w.number(greeting.lanes);
  w.number(greeting.trunk);
  w.number(static_cast<std::uint8_t>(greeting.far));
  w.number(static_cast<std::uint8_t>(greeting.joins));
  w.bytes(greeting.proof);
  return w.take();
}

Result<Greeting> parse_greeting(std::span<const std::byte> bytes) {
  const Status malformed(Code::kProtocolError, "malformed greeting");
  if (bytes.size() > kMaxGreetingBytes) return malformed;
  Reader r(bytes);
  Greeting greeting;
  greeting.from = {r.number<std::uint64_t>()};
  greeting.to = {r.number<std::uint64_t>()};
  greeting.process.realm = r.number<std::uint64_t>();
  greeting.process.number = r.number<std::uint64_t>();
  greeting.process.started = r.number<std::uint64_t>();
  greeting.keeps = r.flag();
  r.list(kMaxOffers, 2, [&] {
    Offer offer{r.text(kMaxTransportName), r.text(kMaxGreetingBytes)};
    // The offer is for a transport that this side does not know: it is skipped.
    const auto row = comm::transport_index(offer.transport);
    if (!row) return;
    r.require(offer.text.size() <= comm::transports()[*row].max_offer);
    r.require(std::none_of(greeting.offers.begin(), greeting.offers.end(),
                           [&](const Offer& o) { return o.transport == offer.transport; }));
    greeting.offers.push_back(std::move(offer));
  });
  greeting.papers = r.bytes(kMaxPaperBytes);
  greeting.opening = r.bytes(kMaxOpeningBytes);
  greeting.lanes = r.number<std::uint8_t>();
  r.require(greeting.lanes <= comm::kMostTrunkLanes);
  greeting.trunk = r.number<std::uint64_t>();
  greeting.far = r.flag();
  greeting.joins = r.flag();
  greeting.proof = r.bytes(kMaxLaneProof);
  if (!r.ended()) return malformed;
  return greeting;
}

}  // namespace holdfast::runtime
