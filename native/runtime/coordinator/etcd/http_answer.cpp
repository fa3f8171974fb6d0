#include "runtime/coordinator/etcd/http_answer.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/json_reader.h"

namespace holdfast::runtime {
namespace {

using AnswerState = HttpAnswer::AnswerState;

constexpr std::string_view kHttpLineEnd = "\r\n";
constexpr std::size_t kMostShownOfHttp = 40;

HttpAnswer bad_answer(const std::string& why) { return {AnswerState::kBad, 0, {}, why}; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::size_t> parse_size(std::string_view text, int base) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || at != end || text.empty() || value > kMostAnswerBytes) {
    return std::nullopt;
  }
  return value;
}

struct HttpHead {
  int status = 0;
  bool chunked = false;
  std::optional<std::size_t> length;
  std::string why;  // empty: sound
};

void read_header(std::string_view line, HttpHead& head) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    head.why = "a header without a colon: \"" + shown_text(line, kMostShownOfHttp) + "\"";
    return;
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (same_word(name, "transfer-encoding")) {
    head.chunked = same_word(value, "chunked");
    if (!head.chunked) head.why = "a transfer encoding other than chunked";
  } else if (same_word(name, "content-length")) {
    const auto length = parse_size(value, 10);
    if (!length || (head.length && *head.length != *length)) {
      head.why = "a body of \"" + shown_text(value, kMostShownOfHttp) +
                 "\" bytes; accepted: at most " + std::to_string(kMostAnswerBytes);
    }
    head.length = length;
  }
}

// "HTTP/1.1 200 OK"
void read_status_line(std::string_view line, HttpHead& head) {
  constexpr std::size_t kVersion = 9;  // of characters, with the blank
  const bool known = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
  const std::size_t status = known ? parse_size(line.substr(kVersion, 3), 10).value_or(0) : 0;
  const std::string_view reason = line.substr(std::min(line.size(), kVersion + 3));
  const bool ends = reason.empty() || reason.front() == ' ';
  if (!ends || status < 200 || status > 599) {
    head.why = "it begins with \"" + shown_text(line, kMostShownOfHttp) + "\"";
    return;
  }
  head.status = static_cast<int>(status);
}

HttpHead read_head(std::string_view text) {
  HttpHead head;
  for (bool first = true; !text.empty() && head.why.empty(); first = false) {
    const auto end = text.find(kHttpLineEnd);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + kHttpLineEnd.size());
    first ? read_status_line(line, head) : read_header(line, head);
  }
  if (head.why.empty() && head.chunked && head.length) head.why = "two lengths of its body";
  return head;
}

// Chunks, the last one of no bytes, and lines that follow it.
HttpAnswer read_chunks(std::string_view rest, int status) {
  HttpAnswer answer{AnswerState::kIncomplete, status, {}, {}};
  for (;;) {
    const auto end = rest.substr(0, kMostHeadBytes).find(kHttpLineEnd);
    if (end == std::string_view::npos) {
      return rest.size() < kMostHeadBytes ? answer : bad_answer("a chunk without a size");
    }
    const auto size = parse_size(rest.substr(0, std::min(end, rest.find(';'))), 16);
    if (!size || answer.body.size() + *size > kMostAnswerBytes) {
      return bad_answer("a chunk of \"" + shown_text(rest.substr(0, end), kMostShownOfHttp) +
                        "\" bytes");
    }
    rest.remove_prefix(end + kHttpLineEnd.size());
    if (*size == 0) break;
    if (rest.size() < *size + kHttpLineEnd.size()) return answer;
    if (rest.substr(*size, kHttpLineEnd.size()) != kHttpLineEnd)
      return bad_answer("a chunk without an end");
    answer.body += rest.substr(0, *size);
    rest.remove_prefix(*size + kHttpLineEnd.size());
  }
  for (std::size_t read = 0; read < kMostHeadBytes;) {
    const auto end = rest.find(kHttpLineEnd);
    if (end == std::string_view::npos) {
      return rest.size() < kMostHeadBytes ? answer : bad_answer("a trailer without an end");
    }
    rest.remove_prefix(end + kHttpLineEnd.size());
    read += end + kHttpLineEnd.size();
    if (end == 0) {
      answer.state = AnswerState::kWhole;
      return answer;
    }
  }
  return bad_answer("more than " + std::to_string(kMostHeadBytes) + " bytes of trailers");
}

HttpAnswer parse_whole(std::string_view bytes, bool ended) {
  constexpr std::string_view kHeadEnd = "\r\n\r\n";
  // What is no HTTP at all is told at once.
  constexpr std::string_view kBegin = "HTTP/1.";
  if (bytes.substr(0, kBegin.size()) != kBegin.substr(0, bytes.size())) {
    return bad_answer("it begins with \"" + shown_text(bytes, kMostShownOfHttp) + "\"");
  }
  const auto end = bytes.substr(0, kMostHeadBytes).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() < kMostHeadBytes) return {};
    return bad_answer("more than " + std::to_string(kMostHeadBytes) + " bytes of headers");
  }
  const HttpHead head = read_head(bytes.substr(0, end));
  if (!head.why.empty()) return bad_answer(head.why);
  const std::string_view rest = bytes.substr(end + kHeadEnd.size());
  if (head.chunked) return read_chunks(rest, head.status);
  if (head.length ? rest.size() < *head.length : !ended) {
    if (rest.size() > kMostAnswerBytes) return bad_answer("a body without an end");
    return {AnswerState::kIncomplete, head.status, {}, {}};
  }
  const std::string_view body = rest.substr(0, head.length.value_or(rest.size()));
  if (body.size() > kMostAnswerBytes) return bad_answer("a body without an end");
  return {AnswerState::kWhole, head.status, std::string(body), {}};
}

}  // namespace

HttpAnswer parse_answer(std::string_view bytes, bool ended) {
  HttpAnswer answer = parse_whole(bytes, ended);
  if (answer.state == AnswerState::kIncomplete && ended) {
    return bad_answer(bytes.empty() ? "it closes the connection without a word"
                                    : "it closes the connection in the middle of its answer");
  }
  return answer;
}

}  // namespace holdfast::runtime
