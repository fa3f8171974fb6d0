// What a stranger can make a session take, before it has shown who it is.
#include <doctest/doctest.h>
#include <malloc.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lacking.h"
#include "secure/tls_session.h"
#include "tls_pairs.h"

namespace holdfast::secure {
namespace {

constexpr std::size_t kMostPerHandshake = 64 << 10;

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A ClientHello that says how long it is and does not end: `filling` bytes of it.
ByteList endless_hello(std::size_t filling) {
  constexpr std::size_t kMessage = 16000;
  ByteList bytes = list_of(std::string("\x16\x03\x01", 3));
  const std::size_t record = kMessage + 4;
  for (const std::size_t b : {record >> 8, record & 255}) bytes.push_back(std::byte(b));
  bytes.push_back(std::byte{1});
  for (const std::size_t b : {kMessage >> 16, kMessage >> 8 & 255, kMessage & 255}) {
    bytes.push_back(std::byte(b));
  }
  bytes.resize(bytes.size() + filling, std::byte{3});
  return bytes;
}

// Handshake messages without end, in whole records.
ByteList endless_records(std::size_t records) {
  ByteList bytes;
  for (std::size_t i = 0; i < records; ++i) {
    const ByteList header = list_of(std::string("\x16\x03\x03\x10\x00", 5));
    bytes.insert(bytes.end(), header.begin(), header.end());
    if (i == 0) {  // a certificate of 64 MiB
      bytes.insert(bytes.end(), {std::byte{11}, std::byte{3}, std::byte{255}, std::byte{255}});
      bytes.resize(bytes.size() + 4092);
    } else {
      bytes.resize(bytes.size() + 4096);
    }
  }
  return bytes;
}

TEST_CASE("an unfinished handshake has at most 64 KiB") {
  if (lacking() || HOLDFAST_SANITIZED) return;
  constexpr std::size_t kSessions = 64;
  const TokenRun run;
  const Acquaintances two;
  const Token token = run.token();
  std::size_t worst = 0;
  const auto count = [&](const char* what, const auto& make) {
    std::vector<TlsSession> sessions;
    sessions.reserve(kSessions);
    sessions.push_back(make());  // the first fills what all share
    const std::size_t before = heap_bytes();
    for (std::size_t i = 0; i < kSessions; ++i) sessions.push_back(make());
    const std::size_t each = (heap_bytes() - before) / kSessions;
    MESSAGE(std::string(what) << ": " << each << " bytes");
    worst = std::max(worst, each);
  };
  const auto key_server = [&] {
    return std::move(TlsSession::server(two.b_context, expecting(two.a.fingerprint()))).value();
  };
  const auto key_client = [&] {
    return std::move(TlsSession::client(two.a_context, expecting(two.b.fingerprint()))).value();
  };
  count("a server by token, fed nothing", [&] { return run.server(); });
  count("a client by token, its hello not sent", [&] { return run.client(token); });
  count("a server by token that has answered", [&] {
    TlsSession server = run.server();
    server.feed(run.client(token).take_outgoing());
    CHECK(!server.outgoing().empty());
    return server;
  });
  count("a server by key that has answered", [&] {
    TlsSession server = key_server();
    server.feed(key_client().take_outgoing());
    return server;
  });
  // Wherever a stranger stops: each eighth of what the other side sends.
  for (std::size_t eighth = 1; eighth < 8; ++eighth) {
    count("a server by key with a part of the client's answer", [&] {
      TlsSession server = key_server();
      TlsSession client = key_client();
      server.feed(client.take_outgoing());
      client.feed(server.take_outgoing());
      const ByteList flight = client.take_outgoing();
      server.feed(std::span(flight).first(flight.size() * eighth / 8));
      CHECK(server.state() == TlsState::kHandshaking);
      return server;
    });
    count("a client by key with a part of the server's answer", [&] {
      TlsSession server = key_server();
      TlsSession client = key_client();
      server.feed(client.take_outgoing());
      const ByteList flight = server.take_outgoing();
      client.feed(std::span(flight).first(flight.size() * eighth / 8));
      return client;
    });
  }
  count("a server with 16 KB of a hello that does not end", [&] {
    TlsSession server = key_server();
    server.feed(endless_hello(15900));
    CHECK(server.state() == TlsState::kHandshaking);
    return server;
  });
  MESSAGE("the most: " << worst << " bytes");
  CHECK(worst > 1000);
  CHECK(worst <= kMostPerHandshake);
}

TEST_CASE("a handshake that does not end is failed after 32 KiB") {
  if (lacking()) return;
  // Records that OpenSSL ignores: changes of the cipher, for middleboxes.
  const Acquaintances two;
  TlsPair pair = two.pair();
  pair.server.feed(pair.client.take_outgoing());
  const ByteList ignored = list_of(std::string("\x14\x03\x03\x00\x01\x01", 6));
  std::size_t fed = 0;
  while (pair.server.state() == TlsState::kHandshaking && fed < 2 * kMaxHandshakeBytes) {
    pair.server.feed(ignored);
    fed += ignored.size();
  }
  CHECK(pair.server.state() == TlsState::kFailed);
  CHECK(fed <= kMaxHandshakeBytes + ignored.size());
}

TEST_CASE("a certificate without end is refused") {
  if (lacking()) return;
  TlsPair pair = Acquaintances().pair();
  pair.client.take_outgoing();
  pair.client.feed(endless_records(20));
  CHECK(pair.client.state() == TlsState::kFailed);
  TlsPair other = Acquaintances().pair();
  other.server.feed(endless_records(20));
  CHECK(other.server.state() == TlsState::kFailed);
}

TEST_CASE("a record longer than a record may be ends the session") {
  if (lacking()) return;
  TlsPair pair = TokenRun().pair();
  pump(pair);
  ByteList record = list_of(std::string("\x17\x03\x03\x41\x01", 5));  // 16 KiB + 257
  record.resize(record.size() + 16641);
  pair.server.feed(record);
  CHECK(pair.server.state() == TlsState::kFailed);
  CHECK(pair.server.failure().code() == Code::kProtocolError);
}

TEST_CASE("bytes that are no TLS are told so") {
  if (lacking()) return;
  const TokenRun run;
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\0'), std::string(64, '\xff')}) {
    TlsSession server = run.server();
    server.feed(list_of(text));
    server.feed_end();
    CHECK(server.state() == TlsState::kFailed);
    CHECK(!server.failure().message().empty());
    server.feed(list_of(text));  // ignored
  }
}

}  // namespace
}  // namespace holdfast::secure
