// The wire as OpenSSL sees it: what was fed, until it is used up, and a queue of what is to be
// sent. For this folder.
#pragma once

#include <cstddef>
#include <span>

#include "secure/byte_queue.h"
#include "secure/openssl.h"

namespace holdfast::secure {

// One session's; one thread at a time.
struct TlsWire {
  std::span<const std::byte> fed{};
  ByteQueue outgoing{};
  // How many more bytes OpenSSL may take; it gets an error after the last.
  std::size_t allowance = 0;
  bool is_exhausted = false;
};

Owned<bio_method_st> make_wire_method();
// OpenSSL's object of a wire, which it must not outlive.
Owned<bio_st> open_wire(const bio_method_st* method, TlsWire* wire);

}  // namespace holdfast::secure
