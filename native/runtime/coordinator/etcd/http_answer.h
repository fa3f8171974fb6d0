// HTTP answer: the part of HTTP/1.1 (RFC 9112) that a server sends to one request on a connection
// of its own: a status line, headers, a body that is counted, in chunks, or ends with the
// connection. The parser is pure and total, because a socket may bring any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::runtime {

// Limit of status line and headers, and of the trailers. etcd sends some 400 bytes.
inline constexpr std::size_t kMostHeadBytes = 8192;
// Limit of an answer. The record of the largest world is 70 KB, and a third more in base64.
inline constexpr std::size_t kMostAnswerBytes = 1u << 20;

struct HttpAnswer {
  enum class AnswerState { kIncomplete, kWhole, kBad };
  AnswerState state = AnswerState::kIncomplete;
  int status = 0;
  std::string body;
  std::string why;  // kBad: what is wrong
};

// `bytes`: everything received so far; `ended`: the other end has closed. Where it has, an answer
// is whole or bad.
HttpAnswer parse_answer(std::string_view bytes, bool ended);

}  // namespace holdfast::runtime
