#include "health/lock/credentials.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/small_file.h"
#include "secure/secret.h"

namespace holdfast::health {
namespace {

// Each line is a role, a scheme and a credential, and may have a comment's worth of blanks.
constexpr std::size_t kMostCredentialFileBytes = kMaxCredentials * 512;

constexpr char kLineForms[] =
    "ROLE bearer TOKEN, or ROLE basic USER PASSWORD, with the role observer or admin";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view take_word(std::string_view& line) {
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  const auto end = std::ranges::find_if(line, is_blank) - line.begin();
  const std::string_view word = line.substr(0, static_cast<std::size_t>(end));
  line.remove_prefix(word.size());
  return word;
}

Status refuse_line(const std::string& why) { return {Code::kConfigError, why}; }

// What a line names; a text that no header can carry, or that is easily guessed, is refused.
Result<Authorization> credential_of(std::string_view scheme, std::string_view first,
                                    std::string_view second) {
  const std::string least = std::to_string(kLeastSecretCharacters) + " characters";
  if (scheme == "bearer" && second.empty()) {
    if (first.size() < kLeastSecretCharacters || !is_token_text(first)) {
      return refuse_line("the token is none; accepted: " + least + " to " +
                         std::to_string(kMaxCredentialBytes) +
                         ", of letters, digits and -._~+/, such as `openssl rand -hex 32` writes");
    }
    return Authorization{AuthorizationScheme::kBearer, std::string(first)};
  }
  if (scheme != "basic" || second.empty()) {
    return refuse_line(std::string("this is no credential; accepted: ") + kLineForms);
  }
  std::string text(first);
  text.append(":").append(second);
  if (first.find(':') != std::string_view::npos || second.size() < kLeastSecretCharacters ||
      !is_user_text(text)) {
    return refuse_line(
        "user and password are none; accepted: a name without a colon, a password "
        "of at least " +
        least + ", and at most " + std::to_string(kMaxCredentialBytes - 1) + " in both");
  }
  return Authorization{AuthorizationScheme::kBasic, std::move(text)};
}

}  // namespace

Credentials::KnownCredential::KnownCredential(const Authorization& authorization) {
  bytes[0] = static_cast<std::byte>(authorization.scheme);
  const auto text = std::as_bytes(std::span(authorization.text));
  std::ranges::copy(text.first(std::min(text.size(), kMaxCredentialBytes)), bytes.begin() + 1);
}

Credentials::KnownCredential::~KnownCredential() { secure::wipe(bytes); }

Status Credentials::add(std::string_view line) {
  std::string_view rest = line;
  const std::string_view role = take_word(rest);
  if (role.empty() || role.front() == '#') return Status::ok();
  const auto reader = page_reader(role);
  const std::string_view scheme = take_word(rest);
  const std::string_view first = take_word(rest);
  const std::string_view second = take_word(rest);
  if (!reader || !take_word(rest).empty()) {
    return refuse_line(std::string("this is no credential; accepted: ") + kLineForms);
  }
  auto credential = credential_of(scheme, first, second);
  if (!credential.is_ok()) return credential.status();
  if (entries_.size() == kMaxCredentials) {
    return refuse_line("more than " + std::to_string(kMaxCredentials) + " credentials");
  }
  KnownCredential entry(credential.value());
  entry.reader = *reader;
  entry.name =
      scheme == "basic" ? std::string(first) : "credential " + std::to_string(entries_.size() + 1);
  secure::wipe(std::as_writable_bytes(std::span(credential.value().text)));
  const auto same = [&](const KnownCredential& other) { return other.bytes == entry.bytes; };
  if (std::ranges::any_of(entries_, same)) return refuse_line("the same credential a second time");
  entries_.push_back(entry);
  return Status::ok();
}

Result<Credentials> Credentials::parse(std::string_view text) {
  Credentials credentials;
  // No entry is moved and left behind.
  credentials.entries_.reserve(kMaxCredentials);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (const Status added = credentials.add(line); !added.is_ok()) {
      return refuse_line("line " + std::to_string(number) + ": " + added.message());
    }
  }
  if (credentials.entries_.empty()) {
    return refuse_line(std::string("no credential in it; accepted: lines ") + kLineForms);
  }
  return credentials;
}

Result<Credentials> Credentials::open(const std::string& path) {
  const SmallFile file{"http_credentials", path, kMostCredentialFileBytes};
  auto text = read_private_file(
      file, {std::string("accepted: a file of mode 0600 with lines ") + kLineForms, "credential"});
  if (!text.is_ok()) return text.status();
  auto credentials = parse(text.value());
  secure::wipe(std::as_writable_bytes(std::span(text.value())));
  if (credentials.is_ok()) return credentials;
  return refuse_line(file.option + " " + path + ": " + credentials.status().message());
}

PageCaller Credentials::caller_of(std::string_view authorization) const {
  auto said = parse_authorization(authorization);
  if (!said) return {};
  const KnownCredential asked(*said);
  const KnownCredential* found = nullptr;
  // All are looked at, wherever one is found.
  for (const KnownCredential& entry : entries_) {
    if (secure::same_bytes(asked.bytes, entry.bytes)) found = &entry;
  }
  return found == nullptr ? PageCaller{} : PageCaller{found->reader, found->name};
}

std::string Credentials::authorization() const {
  const auto admin = std::ranges::find(entries_, PageReader::kAdmin, &KnownCredential::reader);
  const KnownCredential& entry = admin == entries_.end() ? entries_.front() : *admin;
  const auto* text = reinterpret_cast<const char*>(entry.bytes.data() + 1);
  const std::string_view padded(text, kMaxCredentialBytes);
  return authorization_value({static_cast<AuthorizationScheme>(entry.bytes[0]),
                              std::string(padded.substr(0, padded.find('\0')))});
}

}  // namespace holdfast::health
