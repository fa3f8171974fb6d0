#ifdef HOLDFAST_OPENSSL
#include "secure/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <limits>
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
        judge(shared->mode, std::move(terms)) {}

  Status begin();
  void step();
  void shake_hands();
  void open();
  void receive();
  void fail(Status why);
  void fail_by_openssl();
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
  std::span<std::byte> straight{};  // where what is received goes before it goes there
  bool was_heard = false;           // whether the other side wrote something
  std::uint64_t records = 0;        // that the present key encrypted
  Owned<SSL> ssl{};
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
    step();
  }
  return failure;
}

void TlsSession::Core::step() {
  // OpenSSL tells errors by a queue of the thread, which others may have left something in.
  ERR_clear_error();
  if (state == TlsState::kHandshaking) shake_hands();
  if (state == TlsState::kOpen) receive();
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
  judge.rest();
  SSL_set_max_send_fragment(ssl.get(), kMaxRecordBytes);
  wire.allowance = std::numeric_limits<std::size_t>::max();
  state = TlsState::kOpen;
}

void TlsSession::Core::receive() {
  // OpenSSL holds no whole record, and a session that rests needs no memory.
  if (wire.fed.empty()) return;
  // Once for all that may come out: what is fed, and a part of a record that OpenSSL holds.
  if (straight.empty()) received.room(wire.fed.size() + kMaxRecordBytes);
  while (true) {
    const auto room = straight.empty() ? received.room(1) : straight;
    std::size_t size = 0;
    const int done = SSL_read_ex(ssl.get(), room.data(), room.size(), &size);
    if (done == 1) {
      if (straight.empty()) {
        received.added(size);
      } else {
        straight = straight.subspan(size);
      }
      was_heard = true;
      continue;
    }
    switch (SSL_get_error(ssl.get(), done)) {
      case SSL_ERROR_WANT_READ: return;
      case SSL_ERROR_ZERO_RETURN:
        SSL_shutdown(ssl.get());
        state = TlsState::kClosed;
        return;
      default: return fail_by_openssl();
    }
  }
}

void TlsSession::Core::fail(Status why) {
  state = TlsState::kFailed;
  failure = std::move(why);
  judge.rest();
}

void TlsSession::Core::fail_by_openssl() { fail(reason()); }

// Why OpenSSL gave up: what was refused here is more to the point than what followed from it.
Status TlsSession::Core::reason() const {
  const int code = ERR_GET_REASON(ERR_peek_error());
  const std::string text = openssl_reason();
  if (!judge.verdict().is_ok()) return judge.verdict();
  if (wire.is_exhausted) {
    return {Code::kProtocolError,
            "the handshake of TLS took more than " + std::to_string(kMaxHandshakeBytes) + " bytes"};
  }
  const bool opened = state == TlsState::kOpen;
  if (!judge.alert().empty()) {
    return {was_heard ? Code::kProtocolError : Code::kAuthFailed,
            "the other side of the TLS session refused: " + judge.alert()};
  }
  if (code == SSL_R_BINDER_DOES_NOT_VERIFY) {
    return {Code::kAuthFailed,
            "the other side's token has another key than this run's secret gives"};
  }
  return {Code::kProtocolError,
          std::string(opened ? "what came over the TLS session is damaged: "
                             : "no TLS session can be made with the other side: ") +
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
  core.step();
  core.wire.fed = {};
}

std::size_t TlsSession::feed(std::span<const std::byte> bytes, std::span<std::byte> to) {
  Core& core = *core_;
  const bool goes_straight = core.received.empty();
  if (goes_straight) core.straight = to;
  feed(bytes);
  const std::size_t left = std::exchange(core.straight, {}).size();
  return goes_straight ? to.size() - left : 0;
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
  if (bytes.empty()) return Status::ok();
  ERR_clear_error();
  const std::size_t records = bytes.size() / kMaxRecordBytes + 1;
  if (core.records + records > core.records_per_key) {
    SSL_key_update(core.ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    core.records = 0;
  }
  core.records += records;
  constexpr std::size_t kMostOfRecord = 64;  // that is not what it protects
  core.wire.outgoing.room(bytes.size() + records * kMostOfRecord);
  std::size_t written = 0;
  if (SSL_write_ex(core.ssl.get(), bytes.data(), bytes.size(), &written) != 1) {
    core.fail_by_openssl();
  }
  return core.failure;
}

void TlsSession::close() {
  Core& core = *core_;
  if (core.state == TlsState::kHandshaking) {
    core.fail({Code::kAborted, "the TLS session was closed before the handshake was over"});
  } else if (core.state == TlsState::kOpen) {
    ERR_clear_error();
    SSL_shutdown(core.ssl.get());
    core.state = TlsState::kClosed;
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
