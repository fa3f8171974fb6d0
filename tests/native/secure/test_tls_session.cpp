// Sessions of two sides that are ours, by tokens and by keys: that they open, carry bytes, end as
// they should, and that nobody else gets in. Certificates: test_tls_certificates.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lacking.h"
#include "secure/tls_session.h"
#include "tls_pairs.h"

namespace holdfast::secure {
namespace {

void check_carries_both_ways(TlsPair& pair, std::size_t piece = SIZE_MAX) {
  REQUIRE_MESSAGE(both_open(pair), pair.client.failure().message()
                                       << " / " << pair.server.failure().message());
  const std::string large(200'000, 'x');
  CHECK(pair.client.write(list_of("question" + large)).is_ok());
  CHECK(pair.server.write(list_of("answer")).is_ok());
  pump(pair, piece);
  CHECK(text_of(pair.server) == "question" + large);
  CHECK(text_of(pair.client) == "answer");
}

void check_failed_with(const TlsSession& session, Code code, const std::string& words) {
  CHECK(session.state() == TlsState::kFailed);
  CHECK(session.failure().code() == code);
  CHECK_MESSAGE(session.failure().message().find(words) != std::string::npos,
                session.failure().message());
}

TEST_CASE("a token opens a session, and the server knows which") {
  if (lacking()) return;
  const TokenRun run;
  const Token token = run.token();
  TlsPair pair{run.client(token), run.server()};
  CHECK(pair.client.state() == TlsState::kHandshaking);
  pump(pair);
  check_carries_both_ways(pair);
  CHECK(parse_claims(pair.server.peer().claims).value() == token.claims);
  CHECK(pair.client.suite() == "TLS_AES_128_GCM_SHA256");
}

TEST_CASE("two that were told each other's keys open a session") {
  if (lacking()) return;
  const Acquaintances two;
  TlsPair pair = two.pair();
  pump(pair);
  check_carries_both_ways(pair);
  CHECK(pair.client.peer().fingerprint == two.b.fingerprint());
  CHECK(pair.server.peer().fingerprint == two.a.fingerprint());
  CHECK(pair.client.suite() == "TLS_AES_256_GCM_SHA384");
}

TEST_CASE("records may be cut anywhere") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  for (const std::size_t piece : {1U, 2U, 3U, 5U, 1000U}) {
    TlsPair by_token = run.pair();
    pump(by_token, piece);
    check_carries_both_ways(by_token, piece);
    TlsPair by_key = two.pair();
    pump(by_key, piece);
    check_carries_both_ways(by_key, piece);
  }
}

TEST_CASE("what is received goes straight to where it is wanted, and no more is taken") {
  if (lacking()) return;
  const TokenRun run;
  TlsPair pair = run.pair();
  pump(pair);
  std::vector<std::byte> said(40'000);
  for (std::size_t i = 0; i < said.size(); ++i) said[i] = static_cast<std::byte>(i * 7);
  REQUIRE(pair.client.write(said).is_ok());
  const std::vector<std::byte> wire = pair.client.take_outgoing();
  std::vector<std::byte> got(said.size());
  std::span<const std::byte> rest = wire;
  std::size_t done = 0;
  // Two records, the second of which has 7,768 bytes more than there is room for.
  for (const std::size_t room : std::array<std::size_t, 5>{25'000, 2'000, 0, 12'000, 1'000}) {
    const TlsFed fed = pair.server.feed(rest, std::span(got).subspan(done, room));
    CHECK(fed.read == room);
    done += fed.read;
    rest = rest.subspan(fed.taken);
    CHECK(rest.empty() == (done > 2 * kMaxRecordBytes));
    const std::size_t records = (done + kMaxRecordBytes - 1) / kMaxRecordBytes;
    CHECK(pair.server.readable().size() == std::min(records * kMaxRecordBytes, said.size()) - done);
  }
  CHECK(got == said);
  // What nobody takes in order does not overtake what is readable.
  REQUIRE(pair.client.write(said).is_ok());
  pair.server.feed(pair.client.take_outgoing());
  CHECK(pair.server.readable().size() == said.size());
  CHECK(pair.server.feed({}, std::span(got).first(10)).read == 10);
  CHECK(pair.server.feed({}, got).read == said.size() - 10);
  CHECK(pair.server.feed({}, got).read == 0);
}

TEST_CASE("each cut of a record in two is one record") {
  if (lacking()) return;
  TlsPair pair = TokenRun().pair();
  pump(pair);
  for (std::size_t cut = 0; cut < 40; ++cut) {
    CHECK(pair.client.write(list_of("some bytes")).is_ok());
    const ByteList record = pair.client.take_outgoing();
    REQUIRE(record.size() > 30);
    const std::size_t at = std::min(cut, record.size());
    pair.server.feed(std::span(record).first(at));
    CHECK(pair.server.readable().size() == (at == record.size() ? 10 : 0));
    pair.server.feed(std::span(record).subspan(at));
    CHECK(text_of(pair.server) == "some bytes");
  }
}

TEST_CASE("a token with another key, run, time or secret opens nothing, and says why") {
  if (lacking()) return;
  const TokenRun run;
  const auto refused = [&](const Token& token, const std::string& words) {
    TlsPair pair{run.client(token), run.server()};
    pump(pair);
    check_failed_with(pair.server, Code::kAuthFailed, words);
    check_failed_with(pair.client, Code::kAuthFailed, "the other side of the TLS session refused");
    CHECK(pair.server.readable().empty());
  };
  refused({run.token().claims, secret_of(9)}, "has another key");
  refused(run.token("exp-7", {999}), "expired 1 s ago");
  refused(run.token("exp-8"), "of the run \"exp-8\"");
  TokenClaims claims = run.token().claims;
  refused(std::move(ring_of(2).mint(claims)).value(), "has no more");
}

TEST_CASE("a key that is not the card's is refused, whoever has it") {
  if (lacking()) return;
  const Acquaintances two;
  const Acquaintances others;
  TlsPair liar{
      std::move(TlsSession::client(others.a_context, expecting(two.b.fingerprint()))).value(),
      std::move(TlsSession::server(two.b_context, expecting(two.a.fingerprint()))).value()};
  pump(liar);
  check_failed_with(liar.server, Code::kAuthFailed, "is not the card's");
  check_failed_with(liar.client, Code::kAuthFailed, "refused");
  TlsPair impostor{
      std::move(TlsSession::client(two.a_context, expecting(two.b.fingerprint()))).value(),
      std::move(TlsSession::server(others.b_context, expecting(two.a.fingerprint()))).value()};
  pump(impostor);
  check_failed_with(impostor.client, Code::kAuthFailed, "is not the card's");
  CHECK(impostor.server.state() == TlsState::kFailed);
}

TEST_CASE("a session of tokens and one of keys do not understand each other") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  TlsPair pair{
      run.client(run.token()),
      std::move(TlsSession::server(two.b_context, expecting(two.a.fingerprint()))).value()};
  pump(pair);
  CHECK(pair.client.state() == TlsState::kFailed);
  CHECK(pair.server.state() == TlsState::kFailed);
  TlsPair other{
      std::move(TlsSession::client(two.a_context, expecting(two.b.fingerprint()))).value(),
      run.server()};
  pump(other);
  CHECK(other.client.state() == TlsState::kFailed);
  CHECK(other.server.state() == TlsState::kFailed);
}

// Flips one bit of everything that `from_client` chooses the direction of, one handshake to a bit.
void check_flips(const auto& make_pair, bool from_client) {
  for (std::size_t at = 0;; ++at) {
    TlsPair pair = make_pair();
    std::size_t seen = 0;
    bool is_harmless = false;
    bool is_flipped = false;
    for (int round = 0; round < 6; ++round) {
      for (const bool client_sends : {true, false}) {
        ByteList bytes = (client_sends ? pair.client : pair.server).take_outgoing();
        if (client_sends == from_client && !is_flipped && at < seen + bytes.size()) {
          bytes[at - seen] ^= static_cast<std::byte>(1U << (at % 8));
          // A plain record's version is ignored (RFC 8446, 5.1).
          is_harmless = at == 1 || at == 2;
          is_flipped = true;
        }
        if (client_sends == from_client) seen += bytes.size();
        (client_sends ? pair.server : pair.client).feed(bytes);
      }
    }
    if (!is_flipped) return;
    if (both_open(pair)) CHECK_MESSAGE(is_harmless, "bit " << at % 8 << " of byte " << at);
  }
}

TEST_CASE("no bit of a handshake may change") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  for (const bool from_client : {true, false}) {
    check_flips([&] { return run.pair(); }, from_client);
    check_flips([&] { return two.pair(); }, from_client);
  }
}

TEST_CASE("no bit of what was written may change, and nothing of it is read then") {
  if (lacking()) return;
  const TokenRun run;
  for (const bool from_client : {true, false}) {
    for (std::size_t at = 0; at < 36; ++at) {
      TlsPair pair = run.pair();
      pump(pair);
      TlsSession& from = from_client ? pair.client : pair.server;
      TlsSession& to = from_client ? pair.server : pair.client;
      CHECK(from.write(list_of("an important word")).is_ok());
      ByteList record = from.take_outgoing();
      REQUIRE(at < record.size());
      record[at] ^= static_cast<std::byte>(1U << (at % 8));
      to.feed(record);
      // A longer length waits for bytes that do not come; then the end is a cut.
      to.feed_end();
      CHECK(to.state() == TlsState::kFailed);
      CHECK(to.readable().empty());
    }
  }
}

TEST_CASE("a record that comes twice, or not in order, ends the session") {
  if (lacking()) return;
  TlsPair pair = TokenRun().pair();
  pump(pair);
  CHECK(pair.client.write(list_of("once")).is_ok());
  const ByteList record = pair.client.take_outgoing();
  pair.server.feed(record);
  pair.server.feed(record);
  check_failed_with(pair.server, Code::kProtocolError, "damaged");
  CHECK(text_of(pair.server) == "once");

  TlsPair swapped = TokenRun().pair();
  pump(swapped);
  CHECK(swapped.client.write(list_of("first")).is_ok());
  const ByteList first = swapped.client.take_outgoing();
  CHECK(swapped.client.write(list_of("second")).is_ok());
  swapped.server.feed(swapped.client.take_outgoing());
  check_failed_with(swapped.server, Code::kProtocolError, "damaged");
  swapped.server.feed(first);
  CHECK(swapped.server.readable().empty());
}

TEST_CASE("a farewell is told from a cut") {
  if (lacking()) return;
  TlsPair pair = TokenRun().pair();
  pump(pair);
  CHECK(pair.client.write(list_of("last words")).is_ok());
  pair.client.close();
  CHECK(pair.client.state() == TlsState::kClosed);
  CHECK(!pair.client.write(list_of("more")).is_ok());
  pump(pair);
  CHECK(pair.server.state() == TlsState::kClosed);
  CHECK(text_of(pair.server) == "last words");
  pair.server.feed_end();
  pair.client.feed_end();
  CHECK(pair.server.state() == TlsState::kClosed);
  CHECK(pair.client.failure().is_ok());

  TlsPair cut = TokenRun().pair();
  pump(cut);
  CHECK(cut.client.write(list_of("first words")).is_ok());
  cut.server.feed(cut.client.take_outgoing());
  cut.server.feed_end();
  check_failed_with(cut.server, Code::kPeerLost, "cut off");
  CHECK(text_of(cut.server) == "first words");
}

TEST_CASE("a handshake that ends early, or is closed, fails") {
  if (lacking()) return;
  TlsPair pair = TokenRun().pair();
  pair.server.feed(pair.client.take_outgoing());
  pair.server.feed_end();
  check_failed_with(pair.server, Code::kPeerLost, "before the TLS handshake did");
  pair.client.close();
  check_failed_with(pair.client, Code::kAborted, "closed before");
  CHECK(!pair.client.write(list_of("x")).is_ok());
  TlsSession fresh = TokenRun().server();
  CHECK(fresh.write(list_of("x")).code() == Code::kConfigError);
  CHECK(fresh.binding().status().code() == Code::kConfigError);
}

TEST_CASE("a handshake that was recorded opens nothing") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  for (const bool by_token : {true, false}) {
    TlsPair pair = by_token ? run.pair() : two.pair();
    ByteList recorded;
    for (int round = 0; round < 4; ++round) {
      const ByteList bytes = pair.client.take_outgoing();
      recorded.insert(recorded.end(), bytes.begin(), bytes.end());
      pair.server.feed(bytes);
      pair.client.feed(pair.server.take_outgoing());
    }
    REQUIRE(both_open(pair));
    CHECK(pair.client.write(list_of("pay 5")).is_ok());
    const ByteList word = pair.client.take_outgoing();
    recorded.insert(recorded.end(), word.begin(), word.end());
    TlsPair again = by_token ? run.pair() : two.pair();
    again.server.feed(recorded);
    CHECK(again.server.state() == TlsState::kFailed);
    CHECK(again.server.readable().empty());
  }
}

TEST_CASE("a process with a token proves its key, in its session only") {
  if (lacking()) return;
  const TokenRun run;
  const Identity a = std::move(Identity::generate()).value();
  const Identity b = std::move(Identity::generate()).value();
  TlsPair pair = run.pair();
  pump(pair);
  CHECK(pair.client.binding().value() == pair.server.binding().value());
  const Proof proof = pair.client.prove(a).value();
  CHECK(pair.server.check_proof(proof, a.fingerprint()).is_ok());
  CHECK(!pair.server.check_proof(proof, b.fingerprint()).is_ok());
  // Sent back, it is not the server's.
  CHECK(!pair.client.check_proof(proof, a.fingerprint()).is_ok());
  TlsPair other = run.pair();
  pump(other);
  const Status moved = other.server.check_proof(proof, a.fingerprint());
  CHECK(moved.code() == Code::kAuthFailed);
  CHECK(moved.message().find("not made in this session") != std::string::npos);
}

TEST_CASE("terms that say nobody to believe begin no session") {
  if (lacking()) return;
  const TokenRun run;
  const Acquaintances two;
  CHECK(TlsSession::server(run.context, {}).status().code() == Code::kConfigError);
  CHECK(TlsSession::client(run.context, {}).status().code() == Code::kConfigError);
  CHECK(TlsSession::client(two.a_context, {}).status().code() == Code::kConfigError);
}

TEST_CASE("keys take turns, unseen") {
  if (lacking()) return;
  const TokenRun run;
  TlsTerms terms = run.server_terms();
  terms.records_per_key = 4;
  TlsPair pair{run.client(run.token()),
               std::move(TlsSession::server(run.context, std::move(terms))).value()};
  pump(pair);
  std::size_t largest = 0;
  for (int i = 0; i < 20; ++i) {
    CHECK(pair.server.write(list_of("word")).is_ok());
    largest = std::max(largest, pair.server.outgoing().size());
    pump(pair);
    CHECK(text_of(pair.client) == "word");
  }
  CHECK(largest > 40);  // a record that changes the key, and one of four bytes
  CHECK(both_open(pair));
}

TEST_CASE("a session moves, and outlives its context") {
  if (lacking()) return;
  std::optional<TlsPair> kept;
  {
    const TokenRun run;
    TlsPair pair = run.pair();
    pump(pair);
    kept.emplace(std::move(pair));
  }
  check_carries_both_ways(*kept);
}

TEST_CASE("no failure's text has a secret's bytes") {
  if (lacking()) return;
  const TokenRun run;
  const Token token{run.token().claims, secret_of(0x41)};  // "AAAA...", or 41 in digits
  TlsPair pair{run.client(token), run.server()};
  pump(pair);
  for (const TlsSession* session : {&pair.client, &pair.server}) {
    CHECK(session->failure().message().find("AAAA") == std::string::npos);
    CHECK(session->failure().message().find("4141") == std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::secure
