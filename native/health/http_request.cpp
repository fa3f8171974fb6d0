#include "health/http_request.h"

#include <algorithm>
#include <optional>

namespace holdfast::health {
namespace {

constexpr std::size_t kMaxMethodBytes = 16;

constexpr int kBadRequest = 400;
constexpr int kBodyRefused = 413;
constexpr int kTooLong = 431;
constexpr int kVersionRefused = 505;

HttpParse bad(int status) { return {HttpParse::ParseState::kBad, status, {}}; }

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_but_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// The next line, without its end (CR LF, or LF alone, which RFC 9112 2.2 lets through); nullopt
// when it has not ended.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Returns 0, or the HTTP status that says what is wrong.
int read_request_line(std::string_view line, HttpRequest& request) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) return kBadRequest;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (method.empty() || !std::all_of(method.begin(), method.end(), is_upper)) return kBadRequest;
  if (!version.starts_with("HTTP/")) return kBadRequest;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return kVersionRefused;
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (!target.starts_with('/') || !std::all_of(target.begin(), target.end(), printable)) {
    return kBadRequest;
  }
  const std::size_t question = std::min(target.find('?'), target.size());
  request.method = method;
  request.path = target.substr(0, question);
  if (question < target.size()) request.query = target.substr(question + 1);
  return 0;
}

// nullopt: it is no number, or a body of so many bytes is refused; `wrong` says which.
std::optional<std::size_t> body_length(std::string_view value, const HttpRequest& request,
                                       int& wrong) {
  constexpr std::size_t kMostDigits = 18;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  wrong = kBadRequest;
  if (value.empty() || !std::all_of(value.begin(), value.end(), is_digit)) return std::nullopt;
  wrong = kBodyRefused;
  if (value.size() > kMostDigits) return std::nullopt;
  std::size_t length = 0;
  for (const char c : value) length = length * 10 + static_cast<std::size_t>(c - '0');
  const std::size_t most = request.method == "POST" ? kMaxBodyBytes : 0;
  return length <= most ? std::optional(length) : std::nullopt;
}

int read_header(std::string_view line, HttpRequest& request, std::optional<std::size_t>& length) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return kBadRequest;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (equal_but_case(name, "accept")) request.accept = value;
  if (equal_but_case(name, "authorization")) {
    // Two of them might be read as one by whoever stands between, and as the other here.
    if (!request.authorization.empty()) return kBadRequest;
    request.authorization = value;
  }
  if (equal_but_case(name, "content-type")) request.content_type = value;
  // Bytes of a body must not be read as the next request.
  if (equal_but_case(name, "transfer-encoding")) return kBodyRefused;
  if (!equal_but_case(name, "content-length")) return 0;
  if (length) return kBadRequest;
  int wrong = 0;
  length = body_length(value, request, wrong);
  return length ? 0 : wrong;
}

}  // namespace

HttpParse parse_request(std::string_view bytes) {
  // Bytes that cannot begin a request are refused at once, without waiting for more.
  const std::string_view method = bytes.substr(0, std::min(bytes.find(' '), bytes.size()));
  if (!std::all_of(method.begin(), method.end(), is_upper) || method.size() > kMaxMethodBytes) {
    return bad(kBadRequest);
  }
  const bool too_long = bytes.size() > kMaxRequestBytes;
  std::string_view rest = bytes.substr(0, std::min(bytes.size(), kMaxRequestBytes));
  HttpParse parse;
  std::optional<std::size_t> length;
  for (bool first = true;; first = false) {
    const auto line = take_line(rest);
    if (!line) return too_long ? bad(kTooLong) : HttpParse{};
    if (!first && line->empty()) break;
    const int wrong =
        first ? read_request_line(*line, parse.request) : read_header(*line, parse.request, length);
    if (wrong != 0) return bad(wrong);
  }
  const auto head = static_cast<std::size_t>(rest.data() - bytes.data());
  if (bytes.size() - head < length.value_or(0)) return {};
  parse.request.body = bytes.substr(head, length.value_or(0));
  parse.state = HttpParse::ParseState::kWhole;
  return parse;
}

}  // namespace holdfast::health
