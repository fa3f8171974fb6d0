// Coordinator process: a runtime that has no ranks and decides the views of those that call it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ft/coordination.h"
#include "runtime/options.h"

namespace holdfast::runtime {

class CoordinatorProcess {
 public:
  virtual ~CoordinatorProcess() = default;

  // Listens on Options::address and Options::port. kSystem for a port that is in use.
  static Result<std::shared_ptr<CoordinatorProcess>> create(const Options& options,
                                                            std::size_t min_peers);
  virtual std::uint16_t port() const = 0;
  // "host:port" of its pages (option http); empty: none.
  virtual std::string http_address() const = 0;
  // The groups it knows. Any thread.
  virtual std::vector<ft::Coordination::Standing> worlds() = 0;
  // Stops; the members go on without it until they need a decision.
  virtual void close() = 0;
};

}  // namespace holdfast::runtime
