// Kept mail: messages that no receive has taken yet, and their memory, which is used again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/message/matcher.h"

namespace holdfast::comm {

class MailPeer;

struct KeptMail : MailArrival {
  MailPeer* from = nullptr;     // null: this rank itself
  std::vector<std::byte> data;  // of a message that is here in full
  bool announced = false;       // the payload is still at the sender's
  std::uint64_t id = 0;         // by which the sender waits to hear of it; 0: it does not wait
  std::uint64_t address = 0;
  std::uint64_t cost = 0;        // of the sender's credit; 0: none
  MailRequest* local = nullptr;  // a send of this rank to itself that waits
  bool matched = false;          // a probe has taken it out
  Status lost;                   // not ok: the payload can be had no more
};

class KeptMailPool {
 public:
  KeptMail& take() {
    if (spare_.empty()) return *new KeptMail;
    KeptMail* mail = spare_.back().release();
    spare_.pop_back();
    return *mail;
  }

  void give(KeptMail& mail) {
    std::unique_ptr<KeptMail> owned(&mail);
    if (spare_.size() >= kMostSpare) return;
    std::vector<std::byte> data = std::move(mail.data);
    mail = {};
    if (data.capacity() <= kMostSpareBytes) {
      data.clear();
      mail.data = std::move(data);
    }
    spare_.push_back(std::move(owned));
  }

 private:
  // What is kept for the next messages: together 5 MiB at most.
  static constexpr std::size_t kMostSpare = 4096;
  static constexpr std::size_t kMostSpareBytes = 1024;

  std::vector<std::unique_ptr<KeptMail>> spare_;
};

}  // namespace holdfast::comm
