#ifdef HOLDFAST_OPENSSL
#include "secure/tls_wire.h"

#include <openssl/bio.h>

#include <algorithm>
#include <cstring>

namespace holdfast::secure {
namespace {

TlsWire* wire_of(BIO* bio) { return static_cast<TlsWire*>(BIO_get_data(bio)); }

int write_wire(BIO* bio, const char* bytes, std::size_t size, std::size_t* written) {
  wire_of(bio)->outgoing.add(std::as_bytes(std::span(bytes, size)));
  *written = size;
  return 1;
}

int read_wire(BIO* bio, char* bytes, std::size_t size, std::size_t* read) {
  TlsWire& wire = *wire_of(bio);
  BIO_clear_retry_flags(bio);
  *read = 0;
  const std::size_t taken = std::min(size, wire.fed.size());
  if (taken == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  if (taken > wire.allowance) {
    wire.is_exhausted = true;
    return 0;
  }
  std::memcpy(bytes, wire.fed.data(), taken);
  wire.fed = wire.fed.subspan(taken);
  wire.allowance -= taken;
  *read = taken;
  return 1;
}

// Nothing is held back, so there is nothing to flush; all else is refused.
long control_wire(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

}  // namespace

Owned<BIO_METHOD> make_wire_method() {
  Owned<BIO_METHOD> method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast wire"));
  if (method == nullptr || BIO_meth_set_write_ex(method.get(), write_wire) != 1 ||
      BIO_meth_set_read_ex(method.get(), read_wire) != 1 ||
      BIO_meth_set_ctrl(method.get(), control_wire) != 1) {
    return nullptr;
  }
  return method;
}

Owned<BIO> open_wire(const BIO_METHOD* method, TlsWire* wire) {
  Owned<BIO> bio(BIO_new(method));
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio.get(), wire);
  BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace holdfast::secure
#endif
