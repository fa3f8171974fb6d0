#include "runtime/rendezvous/card.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "comm/transport/catalogue.h"
#include "comm/transport/frame.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMaxCardBytes = 4096;
constexpr std::size_t kMaxAddresses = 16;
// Of a greeting before its lines.
constexpr std::size_t kGreetingNumbers = 6 * sizeof(std::uint64_t);

Status damaged(const std::string& what) {
  return {Code::kProtocolError, "damaged member card in the store: " + what};
}

// "key=value" lines.
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

}  // namespace

Status check_settings(const Card& own, Rank self, const Card& other, Rank rank,
                      const std::string& group) {
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
         (card.http.empty() ? "" : "\nhttp=" + card.http) + "\nsettings=" + card.settings +
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
  card.addresses = split(read_text(fields, "addresses"), ',');
  const auto& addresses = card.addresses;
  const bool gap = std::find(addresses.begin(), addresses.end(), "") != addresses.end();
  if (addresses.empty() || addresses.size() > kMaxAddresses || gap) return damaged("addresses");
  card.transports = split(read_text(fields, "transports"), ',');
  card.flat = read_text(fields, "flat");
  card.http = read_text(fields, "http");
  card.settings = read_text(fields, "settings");
  return card;
}

// Layout: from, to, realm, number and start time of the process, 1 for a caller or answerer that
// keeps what carried data (8 bytes each), then a line for each offer: the transport, a blank, its
// text.
std::vector<std::byte> encode_greeting(const Greeting& greeting) {
  std::string text;
  for (const Offer& offer : greeting.offers) text += offer.transport + " " + offer.text + "\n";
  const ProcessId& process = greeting.process;
  const std::array numbers{greeting.from.value, greeting.to.value, process.realm,
                           process.number,      process.started,   std::uint64_t{greeting.keeps}};
  static_assert(sizeof numbers == kGreetingNumbers);
  std::vector<std::byte> out(sizeof numbers + text.size());
  std::memcpy(out.data(), numbers.data(), sizeof numbers);
  std::memcpy(out.data() + sizeof numbers, text.data(), text.size());
  return out;
}

Result<Greeting> parse_greeting(std::span<const std::byte> bytes) {
  if (bytes.size() < kGreetingNumbers || bytes.size() > kMaxGreetingBytes) {
    return Status{Code::kProtocolError, "malformed greeting"};
  }
  std::array<std::uint64_t, kGreetingNumbers / sizeof(std::uint64_t)> numbers{};
  std::memcpy(numbers.data(), bytes.data(), sizeof numbers);
  const auto [from, to, realm, number, started, keeps] = numbers;
  if (keeps > 1) return Status{Code::kProtocolError, "malformed greeting"};
  Greeting greeting;
  greeting.from = {from};
  greeting.to = {to};
  greeting.process = {realm, number, started};
  greeting.keeps = keeps == 1;
  const auto rest = bytes.subspan(sizeof numbers);
  const std::string text(reinterpret_cast<const char*>(rest.data()), rest.size());
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos) return Status{Code::kProtocolError, "malformed greeting"};
    Offer offer{line.substr(0, blank), line.substr(blank + 1)};
    // Of a transport that this side does not know: for others.
    const auto row = comm::transport_index(offer.transport);
    if (!row) continue;
    const bool again = std::any_of(greeting.offers.begin(), greeting.offers.end(),
                                   [&](const Offer& o) { return o.transport == offer.transport; });
    if (again || offer.text.size() > comm::transports()[*row].max_offer) {
      return Status{Code::kProtocolError, "malformed greeting"};
    }
    greeting.offers.push_back(std::move(offer));
  }
  return greeting;
}

}  // namespace holdfast::runtime
