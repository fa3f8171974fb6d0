// Where an etcd listens: http://HOST:PORT, or https:// and that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace holdfast::runtime {

struct EtcdUrl {
  std::string host;  // a name or a numeric address
  std::uint16_t port = 0;
  bool sealed = false;  // https
  friend bool operator==(const EtcdUrl&, const EtcdUrl&) = default;
};

// "http://host:port" or "https://host:port"; an IPv6 address stands in brackets.
std::string to_string(const EtcdUrl& url);

// URLs with commas between them. kConfigError with what is accepted.
Result<std::vector<EtcdUrl>> parse_etcd_urls(const std::string& text);

}  // namespace holdfast::runtime
