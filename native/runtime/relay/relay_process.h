// Relay process: a relay alone, for who has the secret or one of its tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "runtime/options.h"
#include "runtime/relay/relay_server.h"
#include "secure/token.h"

namespace holdfast::runtime {

struct RelayOptions {
  std::string address;  // numeric; empty: all interfaces
  std::uint16_t port = 0;
  std::string secret_file;  // as the option of the same name
  std::string audit_file;   // empty: none
  std::set<secure::Serial> revoked;
  Options pages;  // of these the options http...
};

class RelayProcess {
 public:
  virtual ~RelayProcess() = default;
  // kConfigError: without a secret, or one that cannot be read. kSystem: the port is in use.
  static Result<std::shared_ptr<RelayProcess>> create(const RelayOptions& options);
  // Any thread.
  virtual std::uint16_t port() const = 0;
  virtual RelayServer::RelayCounts counts() const = 0;
  virtual std::string http_address() const = 0;  // empty: it serves no pages
  // From now on these tokens connect nobody.
  virtual void revoke(std::set<secure::Serial> serials) = 0;
  virtual void close() = 0;
};

}  // namespace holdfast::runtime
