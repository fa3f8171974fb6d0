// Records of open sessions: by the vectors of RFC 8448, against a peer that is OpenSSL alone, and
// against one that knows the keys and keeps to no rule.
#include <doctest/doctest.h>

#include "lacking.h"

#ifdef HOLDFAST_OPENSSL
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openssl_peer.h"
#include "secure/hex.h"
#include "secure/records/tls_records.h"
#include "secure/tls_session.h"
#include "tls_pairs.h"

namespace holdfast::secure {
namespace {

using KeyUse = TrafficKey::KeyUse;
using RecordFound = RecordReader::RecordFound;

TrafficKey key_of(std::string_view secret, KeyUse use, std::uint16_t suite = 0x1301) {
  return std::move(TrafficKey::make(*traffic_suite(suite), TrafficSecret::of_text(secret), use))
      .value();
}

ByteList unhexed(std::string_view text) {
  ByteList bytes(text.size() / 2);
  REQUIRE(unhex(text, bytes));
  return bytes;
}

// ---- RFC 8448, 3

constexpr std::string_view kClientSecret =
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
constexpr std::string_view kClientData =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e"
    "2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
constexpr std::string_view kClientAlert = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3";

ByteList fifty_bytes() {
  ByteList bytes(50);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

TEST_CASE("what the client of RFC 8448 writes, this writer writes") {
  RecordWriter writer(key_of(kClientSecret, KeyUse::kSeal), 1000);
  ByteQueue out;
  REQUIRE(writer.write(RecordKind::kData, fifty_bytes(), out).is_ok());
  const std::array farewell{std::byte{1}, std::byte{0}};
  REQUIRE(writer.write(RecordKind::kAlert, farewell, out).is_ok());
  CHECK(hex(out.front()) == std::string(kClientData) + std::string(kClientAlert));
}

TEST_CASE("what the client of RFC 8448 writes is read, cut anywhere") {
  const ByteList wire = unhexed(std::string(kClientData) + std::string(kClientAlert));
  for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
    RecordReader reader(key_of(kClientSecret, KeyUse::kOpen));
    std::vector<RecordKind> kinds;
    ByteList said;
    for (auto part : {std::span(wire).first(cut), std::span(wire).subspan(cut)}) {
      std::span<const std::byte> bytes = part;
      while (reader.find(bytes) == RecordFound::kRecord) {
        ByteList to(reader.most());
        auto kind = RecordKind::kAlert;
        std::size_t size = 0;
        REQUIRE(reader.open(to, kind, size) == RecordFound::kRecord);
        kinds.push_back(kind);
        if (kind == RecordKind::kData) said.insert(said.end(), to.begin(), to.begin() + long(size));
      }
      CHECK(bytes.empty());
    }
    CHECK(said == fifty_bytes());
    CHECK(kinds == std::vector{RecordKind::kData, RecordKind::kAlert});
  }
}

TEST_CASE("a secret of another length makes no key, and one that moved is gone") {
  const auto make = [](std::uint16_t suite, std::string_view text) {
    return TrafficKey::make(*traffic_suite(suite), TrafficSecret::of_text(text), KeyUse::kSeal);
  };
  CHECK(make(0x1303, kClientSecret).is_ok());
  CHECK(!make(0x1302, kClientSecret).is_ok());
  CHECK(!make(0x1301, "xy").is_ok());
  CHECK(!make(0x1301, std::string(200, '0')).is_ok());
  CHECK(traffic_suite(0x1304) == nullptr);
  TrafficSecret one = TrafficSecret::of_text(kClientSecret);
  const TrafficSecret other = std::move(one);
  CHECK(hex(other.bytes()) == kClientSecret);
  const auto all = std::span(reinterpret_cast<const std::byte*>(&one), sizeof one);
  CHECK(std::ranges::all_of(all, [](std::byte byte) { return byte == std::byte{0}; }));
}

// ---- a peer of OpenSSL

// A member's session and OpenSSL's end of it, whose lines of a log of keys are kept.
struct Foreign {
  Acquaintances two;
  Certified own = certify({.name = "holdfast"});
  std::unique_ptr<OpensslPeer> peer;
  std::optional<TlsSession> session;
  std::string log;

  // `is_server`: the foreign end.
  explicit Foreign(bool is_server, const std::string& suites = "",
                   std::uint64_t per_key = 1 << 20) {
    peer = std::make_unique<OpensslPeer>(is_server, [&](SSL_CTX* ctx) {
      SSL_CTX_use_certificate(ctx, own.certificate.get());
      SSL_CTX_use_PrivateKey(ctx, own.key.get());
      SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      SSL_CTX_set_cert_verify_callback(
          ctx, [](X509_STORE_CTX*, void*) { return 1; }, nullptr);
      SSL_CTX_set_num_tickets(ctx, 0);
      SSL_CTX_set_app_data(ctx, &log);
      SSL_CTX_set_keylog_callback(ctx, [](const SSL* ssl, const char* line) {
        *static_cast<std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))) +=
            line + std::string("\n");
      });
      if (!suites.empty()) SSL_CTX_set_ciphersuites(ctx, suites.c_str());
    });
    TlsTerms terms;
    terms.accepts = [](const Fingerprint&) { return Status::ok(); };
    terms.records_per_key = per_key;
    auto made = is_server ? TlsSession::client(two.a_context, std::move(terms))
                          : TlsSession::server(two.a_context, std::move(terms));
    session.emplace(std::move(made).value());
    peer->talk_to(*session);
    REQUIRE_MESSAGE(session->state() == TlsState::kOpen, session->failure().message());
    REQUIRE(peer->is_open());
  }
  // The foreign end's secret, as of the handshake.
  std::string secret(bool is_server) const {
    const std::string label = is_server ? "SERVER_TRAFFIC_SECRET_0 " : "CLIENT_TRAFFIC_SECRET_0 ";
    const std::size_t line = log.find(label);
    REQUIRE(line != std::string::npos);
    const std::size_t at = log.rfind(' ', log.find('\n', line)) + 1;
    return log.substr(at, log.find('\n', line) - at);
  }
};

std::string words(std::size_t size, int from) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + (i * 7 + std::size_t(from)) % 26);
  return text;
}

TEST_CASE("OpenSSL reads what is written, and is read, by every suite and from either side") {
  if (lacking()) return;
  for (const std::string suite :
       {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}) {
    for (const bool is_server : {true, false}) {
      Foreign foreign(is_server, suite);
      CHECK(foreign.session->suite() == suite);
      for (const std::size_t size : {1U, 15U, 16U, 17U, 1000U, 16383U, 16384U, 16385U, 100'000U}) {
        foreign.peer->say(words(size, 1));
        foreign.session->feed(foreign.peer->take_outgoing());
        CHECK(text_of(*foreign.session) == words(size, 1));
        REQUIRE(foreign.session->write(list_of(words(size, 2))).is_ok());
        foreign.peer->feed(foreign.session->take_outgoing());
        CHECK(foreign.peer->take_heard() == words(size, 2));
      }
      foreign.peer->say_farewell();
      foreign.session->feed(foreign.peer->take_outgoing());
      CHECK(foreign.session->state() == TlsState::kClosed);
      foreign.peer->feed(foreign.session->take_outgoing());
      CHECK(foreign.peer->was_farewelled());
    }
  }
}

TEST_CASE("what OpenSSL writes is read at every cut, also where the handshake ends") {
  if (lacking()) return;
  for (const std::size_t piece : {1U, 2U, 5U, 7U, 21U, 22U, 23U, 1000U}) {
    Foreign foreign(true);
    for (int i = 0; i < 5; ++i) foreign.peer->say(words(300, i));
    ByteList wire = foreign.peer->take_outgoing();
    feed_in_pieces(*foreign.session, wire, piece);
    std::string all;
    for (int i = 0; i < 5; ++i) all += words(300, i);
    CHECK(text_of(*foreign.session) == all);
  }
  // The last of the client's handshake and its first words are one piece.
  for (std::size_t cut = 0; cut < 120; ++cut) {
    TlsPair pair = Acquaintances().pair();
    pair.server.feed(pair.client.take_outgoing());
    pair.client.feed(pair.server.take_outgoing());
    REQUIRE(pair.client.state() == TlsState::kOpen);
    REQUIRE(pair.client.write(list_of("first words")).is_ok());
    const ByteList wire = pair.client.take_outgoing();
    const std::span bytes(wire);
    pair.server.feed(bytes.first(wire.size() - cut));
    pair.server.feed(bytes.subspan(wire.size() - cut));
    CHECK(text_of(pair.server) == "first words");
  }
}

TEST_CASE("keys change from either side, whether asked or not") {
  if (lacking()) return;
  for (const bool is_server : {true, false}) {
    Foreign foreign(is_server, "", 3);  // this side's after three records
    for (int i = 0; i < 10; ++i) {
      foreign.peer->change_key(i % 2 == 0);
      foreign.peer->say(words(100, i));
      foreign.session->feed(foreign.peer->take_outgoing());
      CHECK(text_of(*foreign.session) == words(100, i));
      REQUIRE(foreign.session->write(list_of(words(50'000, i))).is_ok());
      foreign.peer->feed(foreign.session->take_outgoing());
      CHECK(foreign.peer->take_heard() == words(50'000, i));
    }
    CHECK(foreign.session->state() == TlsState::kOpen);
  }
}

TEST_CASE("who asks for a thousand keys at once gets one") {
  if (lacking()) return;
  Foreign foreign(true);
  ByteList wire;
  for (int i = 0; i < 1000; ++i) {
    foreign.peer->change_key(true);
    const ByteList asked = foreign.peer->take_outgoing();
    wire.insert(wire.end(), asked.begin(), asked.end());
  }
  foreign.session->feed(wire);
  CHECK(foreign.session->outgoing().size() < 40);
  foreign.peer->feed(foreign.session->take_outgoing());
  REQUIRE(foreign.session->write(list_of("still here")).is_ok());
  foreign.peer->feed(foreign.session->take_outgoing());
  CHECK(foreign.peer->take_heard() == "still here");
}

TEST_CASE("a server's tickets are ignored, and data goes on") {
  if (lacking()) return;
  Foreign foreign(true);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(SSL_new_session_ticket(foreign.peer->ssl()) == 1);
    foreign.peer->say(words(10, i));
    feed_in_pieces(*foreign.session, foreign.peer->take_outgoing(), i == 0 ? 1 : 1000);
    CHECK(text_of(*foreign.session) == words(10, i));
  }
}

// ---- a peer that knows the keys

// Writes records as it likes in place of the foreign end.
class Forger {
 public:
  explicit Forger(bool is_server)
      : foreign_(is_server), key_(key_of(foreign_.secret(is_server), KeyUse::kSeal, suite())) {}

  TlsSession& session() { return *foreign_.session; }
  // A record with these bytes, the last of which is a kind unless it is padding.
  Forger& tell(const ByteList& inner) {
    ByteList record(kRecordHeaderBytes + inner.size() + kRecordTagBytes);
    const std::size_t sealed = record.size() - kRecordHeaderBytes;
    const std::array header{std::byte{23}, std::byte{3}, std::byte{3},
                            static_cast<std::byte>(sealed >> 8), static_cast<std::byte>(sealed)};
    std::ranges::copy(header, record.begin());
    const auto text = std::span(inner).first(inner.size() - 1);
    REQUIRE(key_.seal(header, text, inner.back(), std::span(record).subspan(kRecordHeaderBytes)));
    session().feed(record);
    return *this;
  }
  Forger& tell(RecordKind kind, ByteList inner) {
    inner.push_back(static_cast<std::byte>(kind));
    return tell(inner);
  }
  // That the session has failed for that, and has told OpenSSL so.
  void check_refused(const std::string& why, const std::string& alert) {
    CAPTURE(why);
    CHECK(session().state() == TlsState::kFailed);
    CHECK(session().failure().code() == Code::kProtocolError);
    CHECK_MESSAGE(
        session().failure().message() == "what came over the TLS session is damaged: " + why,
        session().failure().message());
    foreign_.peer->feed(session().take_outgoing());
    CHECK(foreign_.peer->alert() == alert);
  }

 private:
  std::uint16_t suite() {
    return SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(foreign_.peer->ssl()));
  }
  Foreign foreign_;
  TrafficKey key_;
};

ByteList numbers(std::initializer_list<int> values) {
  ByteList bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

constexpr auto kShake = RecordKind::kHandshake;

TEST_CASE("padding of any length is taken away") {
  if (lacking()) return;
  Forger forger(true);
  for (const std::size_t zeros : {0U, 1U, 15U, 16U, 1000U, 16379U}) {
    ByteList inner = list_of("words");
    inner.push_back(std::byte{23});
    inner.resize(inner.size() + zeros);
    forger.tell(inner);
    CHECK(text_of(forger.session()) == "words");
  }
  forger.tell(RecordKind::kData, {}).tell(RecordKind::kData, list_of("x"));
  CHECK(text_of(forger.session()) == "x");
}

TEST_CASE("a padded record goes straight to where it is wanted") {
  if (lacking()) return;
  const auto sealed = [](const ByteList& inner, TrafficKey& key) {
    ByteList record(kRecordHeaderBytes + inner.size() + kRecordTagBytes);
    record[0] = std::byte{23};
    record[3] = static_cast<std::byte>((record.size() - kRecordHeaderBytes) >> 8);
    record[4] = static_cast<std::byte>(record.size() - kRecordHeaderBytes);
    REQUIRE(key.seal(std::span(record).first(kRecordHeaderBytes),
                     std::span(inner).first(inner.size() - 1), inner.back(),
                     std::span(record).subspan(kRecordHeaderBytes)));
    return record;
  };
  auto key = key_of(kClientSecret, KeyUse::kSeal);
  RecordReader reader(key_of(kClientSecret, KeyUse::kOpen));
  ByteList inner = list_of("abc");
  inner.push_back(std::byte{23});
  inner.resize(40);
  ByteList record = sealed(inner, key);
  std::span<const std::byte> bytes = record;
  REQUIRE(reader.find(bytes) == RecordFound::kRecord);
  ByteList to(50, std::byte{'.'});
  auto kind = RecordKind::kAlert;
  std::size_t size = 0;
  REQUIRE(reader.open(to, kind, size) == RecordFound::kRecord);
  CHECK(size == 3);
  CHECK(kind == RecordKind::kData);
  CHECK(to[39] == std::byte{'.'});
  // One that was changed leaves nothing of itself.
  record = sealed(inner, key);
  record.back() ^= std::byte{1};
  bytes = record;
  REQUIRE(reader.find(bytes) == RecordFound::kRecord);
  REQUIRE(reader.open(to, kind, size) == RecordFound::kFault);
  CHECK(reader.fault().alert == TlsAlert::kBadRecordMac);
  CHECK(std::ranges::all_of(std::span(to).first(39), [](auto b) { return b == std::byte{0}; }));
}

TEST_CASE("what may not come ends the session, and the other side is told why") {
  if (lacking()) return;
  for (const bool is_server : {true, false}) {
    const auto refused = [&](const char* why, const char* alert, auto... records) {
      Forger forger(is_server);
      (forger.tell(records), ...);
      forger.check_refused(why, alert);
    };
    refused("bad record type", "unexpected_message", numbers({0, 0, 0}));
    refused("bad record type", "unexpected_message", numbers({1, 20}));
    refused("bad record type", "unexpected_message", numbers({'x', 24}));
    refused("data length too long", "record overflow",
            ByteList(kMaxRecordBytes + 2, std::byte{23}));
    refused("bad alert", "decode error", numbers({1, 21}));
    refused("bad alert", "decode error", numbers({1, 0, 0, 21}));
    refused("empty handshake message", "unexpected_message", numbers({22}));
    refused("unexpected message", "unexpected_message", numbers({13, 0, 0, 0, 22}));
    refused("bad key update", "decode error", numbers({24, 0, 0, 2, 0, 0, 22}));
    refused("bad key update", "illegal parameter", numbers({24, 0, 0, 1, 2, 22}));
    refused("not on record boundary", "unexpected_message", numbers({24, 0, 0, 1, 0, 24, 22}));
    refused("data within a message of the handshake", "unexpected_message", numbers({24, 0, 22}),
            numbers({'x', 23}));
  }
  // Only servers have tickets.
  Forger forger(false);
  forger.tell(kShake, numbers({4, 0, 0, 0}))
      .check_refused("unexpected message", "unexpected_message");
}

TEST_CASE("messages of the handshake may be cut anywhere between records") {
  if (lacking()) return;
  Forger forger(true);
  // A ticket of 3 bytes and the head of one of 70,000, which nobody keeps.
  forger.tell(kShake, numbers({4, 0, 0})).tell(kShake, numbers({3, 'a', 'b', 'c', 4, 1, 0x11}));
  forger.tell(kShake, numbers({0x70})).tell(kShake, ByteList(16'000, std::byte{'t'}));
  for (int i = 0; i < 3; ++i) forger.tell(kShake, ByteList(16'000, std::byte{'t'}));
  forger.tell(kShake, ByteList(6000, std::byte{'t'})).tell(RecordKind::kData, list_of("word"));
  CHECK_MESSAGE(text_of(forger.session()) == "word", forger.session().failure().message());
  forger.tell(kShake, numbers({24, 0})).tell(kShake, numbers({0, 1})).tell(kShake, numbers({0}));
  CHECK(forger.session().state() == TlsState::kOpen);
  // The old key is no more.
  forger.tell(RecordKind::kData, list_of("word"));
  forger.check_refused("decryption failed or bad record mac", "bad record mac");
}

TEST_CASE("an alert of OpenSSL's is told, and one who has cancelled may still say farewell") {
  if (lacking()) return;
  Forger failing(true);
  failing.tell(RecordKind::kAlert, numbers({2, 20}));
  CHECK(failing.session().failure().message() ==
        "the other side of the TLS session refused: bad record mac");
  CHECK(failing.session().failure().code() == Code::kAuthFailed);
  CHECK(failing.session().outgoing().empty());
  Forger cancelling(false);
  cancelling.tell(RecordKind::kData, list_of("bye")).tell(RecordKind::kAlert, numbers({1, 90}));
  CHECK(cancelling.session().state() == TlsState::kOpen);
  cancelling.tell(RecordKind::kAlert, numbers({1, 0})).tell(RecordKind::kData, list_of("ghost"));
  CHECK(cancelling.session().state() == TlsState::kClosed);
  CHECK(text_of(cancelling.session()) == "bye");
}

}  // namespace
}  // namespace holdfast::secure
#else
TEST_CASE("records are made by a build that has OpenSSL") { CHECK(holdfast::secure::lacking()); }
#endif
