// Mail memory: what mailboxes of one host share: memory for rings, and sight of each other's
// memory. A seam, so that tests have mailboxes that share what they like, without a system call.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/transport/process_memory.h"

namespace holdfast::comm {

// Memory that two mailboxes have mapped; it goes with its owner.
class MailSegment {
 public:
  virtual ~MailSegment() = default;
  virtual std::byte* data() const = 0;
  virtual const std::string& name() const = 0;
  // Nobody else will map it.
  virtual void unlink() = 0;
};

class MailMemory {
 public:
  virtual ~MailMemory() = default;
  // Zeroed memory.
  virtual Result<std::unique_ptr<MailSegment>> make(std::size_t bytes) = 0;
  // What another mailbox has made; the name came from it.
  virtual Result<std::unique_ptr<MailSegment>> open(const std::string& name, std::size_t bytes) = 0;
  // How others find this process's memory.
  virtual MemoryOwner self() const = 0;
  // Null: not to be read from here.
  virtual std::shared_ptr<ProcessMemory> reach(const MemoryOwner& owner) = 0;
};

// That of the system.
class SystemMailMemory final : public MailMemory {
 public:
  Result<std::unique_ptr<MailSegment>> make(std::size_t bytes) override;
  Result<std::unique_ptr<MailSegment>> open(const std::string& name, std::size_t bytes) override;
  MemoryOwner self() const override { return MemoryOwner::self(); }
  std::shared_ptr<ProcessMemory> reach(const MemoryOwner& owner) override {
    return reach_memory(owner);
  }
};

}  // namespace holdfast::comm
