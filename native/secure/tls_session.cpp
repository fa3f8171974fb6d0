#ifdef HOLDFAST_OPENSSL
#include "secure/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "secure/tls_wire.h"

namespace holdfast::secure {
namespace {

// Records are small while hands are shaken: OpenSSL has memory for a whole one in either direction.
constexpr std::size_t kHandshakeRecordBytes = 2 << 10;
constexpr std::string_view kBindingLabel = "EXPORTER-holdfast-proof-of-a-key";

bool has_what_it_asks(TlsMode mode, TlsSide side, const TlsTerms& terms) {
  switch (mode) {
    case TlsMode::kToken:
      return side == TlsSide::kClient ? terms.token != nullptr : terms.key_of != nullptr;
    case TlsMode::kIdentity: return terms.accepts != nullptr;
    case TlsMode::kCertificate: return side == TlsSide::kServer || !terms.hosts.empty();
    case TlsMode::kServed: return side == TlsSide::kServer;
  }
  return false;
}

}  // namespace

// OpenSSL's object points to the judge and to the wire: they stay where they are, and are gone
// last.
struct TlsSession::Core {
  Core(const TlsContext& context, TlsSide this_side, TlsTerms terms)
      : shared(context.shared()),
        side(this_side),
        records_per_key(terms.records_per_key),
        judge(shared->mode, std::move(terms)),
        late(this_side == TlsSide::kClient) {}

  Status begin();
  void step(std::span<std::byte> to);
  void shake_hands();
  void open();
  Status take_keys();
  void receive(std::span<std::byte> to);
  void hear(RecordKind kind, std::span<const std::byte> said);
  void hear_alert(std::span<const std::byte> said);
  void hear_handshake(std::span<const std::byte> said);
  std::size_t read(std::span<std::byte> to);
  void answer();
  void say(TlsAlert alert);
  void say_farewell();
  void end(TlsState how);
  void fail(Status why);
  void fail_by_openssl();
  void fail_by(const RecordFault& fault);
  void fail_by_alert(const std::string& alert);
  Status reason() const;

  // Owned together with the context and its other sessions.
  std::shared_ptr<const TlsContext::Shared> shared;
  TlsSide side;
  std::uint64_t records_per_key;
  TlsState state = TlsState::kHandshaking;
  Status failure{};
  TlsJudge judge;
  TlsWire wire{};
  ByteQueue received{};
  std::size_t straight = 0;  // bytes that went to where they are wanted, in this feed
  bool was_heard = false;    // whether the other side wrote something
  bool owes_a_key = false;   // whether the other side asked for the next key of this one
  Owned<SSL> ssl{};
  // While the session is open.
  std::unique_ptr<RecordWriter> writer{};
  std::unique_ptr<RecordReader> reader{};
  LateHandshake late;
};

Status TlsSession::Core::begin() {
  ERR_clear_error();
  ssl.reset(SSL_new(shared->context.get()));
  Owned<BIO> bio = open_wire(shared->wire.get(), &wire);
  if (ssl == nullptr || bio == nullptr) {
    return {Code::kSystem, "OpenSSL cannot begin a session: " + openssl_reason()};
  }
  // One for both directions: OpenSSL frees it once.
  BIO* both = bio.release();
  SSL_set_bio(ssl.get(), both, both);
  judge.preside(ssl.get(), side == TlsSide::kServer);
  wire.allowance = kMaxHandshakeBytes;
  SSL_set_max_send_fragment(ssl.get(), kHandshakeRecordBytes);
  if (side == TlsSide::kServer) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
    step({});
  }
  return failure;
}

void TlsSession::Core::step(std::span<std::byte> to) {
  // OpenSSL tells errors by a queue of the thread, which others may have left something in.
  ERR_clear_error();
  if (state == TlsState::kHandshaking) shake_hands();
  if (state == TlsState::kOpen) receive(to);
}

void TlsSession::Core::shake_hands() {
  const int done = SSL_do_handshake(ssl.get());
  if (done == 1) return open();
  if (SSL_get_error(ssl.get(), done) != SSL_ERROR_WANT_READ) fail_by_openssl();
}

void TlsSession::Core::open() {
  if (Status sound = judge.settle(SSL_session_reused(ssl.get()) == 1); !sound.is_ok()) {
    return fail(std::move(sound));
  }
  if (Status taken = take_keys(); !taken.is_ok()) return fail(std::move(taken));
  judge.rest();
  state = TlsState::kOpen;
}

// From here on records are ours: OpenSSL reads no byte beyond the handshake, and writes none.
Status TlsSession::Core::take_keys() {
  if (SSL_has_pending(ssl.get()) != 0) {
    return {Code::kProtocolError, "a TLS record has more than the end of the handshake"};
  }
  const TrafficSuite* suite =
      traffic_suite(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl.get())));
  if (suite == nullptr) return {Code::kSystem, "the TLS session has a suite that nobody offered"};
  auto [of_client, of_server] = judge.take_secrets();
  if (side == TlsSide::kServer) std::swap(of_client, of_server);
  auto own = TrafficKey::make(*suite, std::move(of_client), TrafficKey::KeyUse::kSeal);
  if (!own.is_ok()) return own.status();
  auto others = TrafficKey::make(*suite, std::move(of_server), TrafficKey::KeyUse::kOpen);
  if (!others.is_ok()) return others.status();
  writer = std::make_unique<RecordWriter>(std::move(own).value(), records_per_key);
  reader = std::make_unique<RecordReader>(std::move(others).value());
  return Status::ok();
}

// All that was fed if `to` is empty, and otherwise what fills it.
void TlsSession::Core::receive(std::span<std::byte> to) {
  const bool takes_all = to.empty();
  while (state == TlsState::kOpen && (takes_all || (!to.empty() && received.empty()))) {
    auto found = reader->find(wire.fed);
    if (found == RecordReader::RecordFound::kNothing) break;
    std::size_t size = 0;
    auto kind = RecordKind::kData;
    std::span<std::byte> room = to;
    if (found == RecordReader::RecordFound::kRecord) {
      if (to.size() < reader->most()) room = received.room(reader->most());
      found = reader->open(room, kind, size);
    }
    if (found == RecordReader::RecordFound::kFault) return fail_by(reader->fault());
    if (kind != RecordKind::kData || late.midway()) {
      hear(kind, room.first(size));
    } else if (size > 0) {
      was_heard = true;
      if (room.data() == to.data()) {
        to = to.subspan(size);
        straight += size;
      } else {
        received.added(size);
        const std::size_t count = read(to);
        to = to.subspan(count);
        straight += count;
      }
    }
  }
  answer();
}

// What is no data, or comes where there may be none.
void TlsSession::Core::hear(RecordKind kind, std::span<const std::byte> said) {
  switch (kind) {
    case RecordKind::kAlert: return hear_alert(said);
    case RecordKind::kHandshake: return hear_handshake(said);
    case RecordKind::kData: break;
  }
  fail_by({TlsAlert::kUnexpectedMessage, "data within a message of the handshake"});
}

void TlsSession::Core::hear_alert(std::span<const std::byte> said) {
  constexpr std::size_t kAlertBytes = 2;  // a level, which says nothing in TLS 1.3, and what
  if (said.size() != kAlertBytes) return fail_by({TlsAlert::kDecodeError, "bad alert"});
  const auto what = static_cast<TlsAlert>(said[1]);
  if (what == TlsAlert::kUserCanceled) return;  // a farewell follows
  if (what != TlsAlert::kCloseNotify) {
    return fail_by_alert(SSL_alert_desc_string_long(static_cast<int>(what)));
  }
  say_farewell();
}

void TlsSession::Core::hear_handshake(std::span<const std::byte> said) {
  const auto word = late.hear(said);
  if (word == LateHandshake::LateWord::kNothing) return;
  if (word == LateHandshake::LateWord::kFault) return fail_by(late.fault());
  owes_a_key = owes_a_key || word == LateHandshake::LateWord::kKeyAndAsks;
  if (Status changed = reader->change_key(); !changed.is_ok()) fail(std::move(changed));
}

std::size_t TlsSession::Core::read(std::span<std::byte> to) {
  const auto bytes = received.front();
  const std::size_t size = std::min(to.size(), bytes.size());
  if (size > 0) std::memcpy(to.data(), bytes.data(), size);
  received.drop(size);
  return size;
}

// Once for all that asked: answers must not pile up where nobody reads them.
void TlsSession::Core::answer() {
  if (state != TlsState::kOpen || !std::exchange(owes_a_key, false)) return;
  if (Status changed = writer->change_key(wire.outgoing); !changed.is_ok()) {
    fail(std::move(changed));
  }
}

void TlsSession::Core::say(TlsAlert alert) {
  constexpr auto kWarning = std::byte{1};
  constexpr auto kFatal = std::byte{2};
  const std::array said{alert == TlsAlert::kCloseNotify ? kWarning : kFatal,
                        static_cast<std::byte>(alert)};
  // The session is at its end, whether this can be said or not.
  [[maybe_unused]] const Status written = writer->write(RecordKind::kAlert, said, wire.outgoing);
}

void TlsSession::Core::say_farewell() {
  say(TlsAlert::kCloseNotify);
  end(TlsState::kClosed);
}

// Keys go when nothing more is said or heard.
void TlsSession::Core::end(TlsState how) {
  state = how;
  judge.rest();
  writer.reset();
  reader.reset();
}

void TlsSession::Core::fail(Status why) {
  failure = std::move(why);
  end(TlsState::kFailed);
}

void TlsSession::Core::fail_by_openssl() { fail(reason()); }

void TlsSession::Core::fail_by(const RecordFault& fault) {
  say(fault.alert);
  fail({Code::kProtocolError,
        std::string("what came over the TLS session is damaged: ") + fault.why});
}

void TlsSession::Core::fail_by_alert(const std::string& alert) {
  fail({was_heard ? Code::kProtocolError : Code::kAuthFailed,
        "the other side of the TLS session refused: " + alert});
}

// Why OpenSSL gave up: what was refused here is more to the point than what followed from it.
Status TlsSession::Core::reason() const {
  const int code = ERR_GET_REASON(ERR_peek_error());
  const std::string text = openssl_reason();
  if (!judge.verdict().is_ok()) return judge.verdict();
  if (wire.is_exhausted) {
    return {Code::kProtocolError,
            "the handshake of TLS took more than " + std::to_string(kMaxHandshakeBytes) + " bytes"};
  }
  if (!judge.alert().empty()) {
    return {Code::kAuthFailed, "the other side of the TLS session refused: " + judge.alert()};
  }
  if (code == SSL_R_BINDER_DOES_NOT_VERIFY) {
    return {Code::kAuthFailed,
            "the other side's token has another key than this run's secret gives"};
  }
  return {Code::kProtocolError, "no TLS session can be made with the other side: " +
                                    (text.empty() ? "no reason is known" : text)};
}

TlsSession::TlsSession(std::unique_ptr<Core> core) : core_(std::move(core)) {}
TlsSession::~TlsSession() = default;
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;

Result<TlsSession> TlsSession::client(const TlsContext& context, TlsTerms terms) {
  if (!has_what_it_asks(context.shared()->mode, TlsSide::kClient, terms)) {
    return Status{Code::kConfigError, "a TLS client was not told whom to believe"};
  }
  auto core = std::make_unique<Core>(context, TlsSide::kClient, std::move(terms));
  TRY(core->begin());
  return TlsSession(std::move(core));
}

Result<TlsSession> TlsSession::server(const TlsContext& context, TlsTerms terms) {
  if (!has_what_it_asks(context.shared()->mode, TlsSide::kServer, terms)) {
    return Status{Code::kConfigError, "a TLS server was not told whom to believe"};
  }
  auto core = std::make_unique<Core>(context, TlsSide::kServer, std::move(terms));
  TRY(core->begin());
  return TlsSession(std::move(core));
}

void TlsSession::feed(std::span<const std::byte> bytes) {
  Core& core = *core_;
  core.wire.fed = bytes;
  core.step({});
  core.wire.fed = {};
}

TlsFed TlsSession::feed(std::span<const std::byte> bytes, std::span<std::byte> to) {
  Core& core = *core_;
  core.straight = core.read(to);
  to = to.subspan(core.straight);
  if (to.empty()) return {0, core.straight};
  core.wire.fed = bytes;
  core.step(to);
  // What comes after a session's end is ignored.
  const bool goes_on = core.state == TlsState::kOpen;
  const auto left = std::exchange(core.wire.fed, {});
  return {bytes.size() - (goes_on ? left.size() : 0), core.straight};
}

void TlsSession::feed_end() {
  Core& core = *core_;
  if (core.state == TlsState::kHandshaking) {
    core.fail({Code::kPeerLost, "the connection ended before the TLS handshake did"});
  } else if (core.state == TlsState::kOpen) {
    core.fail(
        {Code::kPeerLost, "the connection was cut off: TLS has no farewell of the other side"});
  }
}

std::span<const std::byte> TlsSession::outgoing() const { return core_->wire.outgoing.front(); }
void TlsSession::sent(std::size_t size) { core_->wire.outgoing.drop(size); }
std::span<const std::byte> TlsSession::readable() const { return core_->received.front(); }
void TlsSession::consume(std::size_t size) { core_->received.drop(size); }

Status TlsSession::write(std::span<const std::byte> bytes) {
  Core& core = *core_;
  if (core.state == TlsState::kFailed) return core.failure;
  if (core.state != TlsState::kOpen) {
    return {Code::kConfigError, "a TLS session is written to while it is open"};
  }
  Status written = core.writer->write(RecordKind::kData, bytes, core.wire.outgoing);
  if (!written.is_ok()) core.fail(std::move(written));
  return core.failure;
}

void TlsSession::close() {
  Core& core = *core_;
  if (core.state == TlsState::kHandshaking) {
    core.fail({Code::kAborted, "the TLS session was closed before the handshake was over"});
  } else if (core.state == TlsState::kOpen) {
    core.say_farewell();
  }
}

TlsState TlsSession::state() const { return core_->state; }
Status TlsSession::failure() const { return core_->failure; }
TlsSide TlsSession::side() const { return core_->side; }
const TlsPeer& TlsSession::peer() const { return core_->judge.peer(); }

std::string TlsSession::suite() const {
  const SSL_CIPHER* suite = SSL_get_current_cipher(core_->ssl.get());
  return suite == nullptr ? "" : SSL_CIPHER_standard_name(suite);
}

Result<Binding> TlsSession::binding() const {
  if (core_->state != TlsState::kOpen) {
    return Status{Code::kConfigError, "a TLS session has a binding while it is open"};
  }
  Binding binding{};
  if (SSL_export_keying_material(core_->ssl.get(), reinterpret_cast<unsigned char*>(binding.data()),
                                 binding.size(), kBindingLabel.data(), kBindingLabel.size(),
                                 nullptr, 0, 0) != 1) {
    return Status{Code::kSystem, "OpenSSL exports nothing: " + openssl_reason()};
  }
  return binding;
}

}  // namespace holdfast::secure
#endif
