// Early messages: small messages that came before a receive asked for them, kept until one does. A
// peer that keeps to its credit is never ahead by more than the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/transport/key_table.h"

namespace holdfast::comm {

struct EarlyMessage {
  std::uint32_t signature = 0;
  std::uint64_t total_bytes = 0;
  std::vector<std::byte> bytes;
  bool outlived = false;  // the message outlived its connection: its sender has its credit back
};

class EarlyMessages {
 public:
  // Called when the frame's message is about to come; false: it is beyond the limit.
  bool begin(const FrameHeader& header, std::uint64_t limit);
  // The memory for the rest of that message.
  std::span<std::byte> rest() { return std::span(arriving_.bytes).subspan(received_); }
  void filled(std::uint64_t bytes) { received_ += bytes; }
  const MessageKey& arriving() const { return key_; }
  // Called when the message has come: it goes to the caller, or is kept.
  EarlyMessage take_arrived() { return std::move(arriving_); }
  void keep_arrived();

  bool has(const MessageKey& key) const { return kept_.find(key) != nullptr; }
  std::optional<EarlyMessage> take(const MessageKey& key) { return kept_.take(key); }
  // The message is not needed any more; returns what it cost.
  std::uint64_t release(EarlyMessage message);
  // Drops the messages of the view; returns what they cost.
  std::uint64_t retire(CommId comm, Epoch epoch);

  // Called when another connection begins: messages that are here stay, and cost nothing any more.
  // Those that had already outlived a connection are dropped, so that there is never more than
  // twice the limit.
  void outlive_connection();

  // Bytes kept of this connection's messages, with the overhead.
  std::uint64_t cost() const { return cost_; }

 private:
  std::vector<std::byte> take_spare(std::size_t size);
  void give_spare(std::vector<std::byte> bytes);

  KeyTable<EarlyMessage> kept_;
  MessageKey key_;  // of the message that is coming
  EarlyMessage arriving_;
  std::size_t received_ = 0;
  std::uint64_t cost_ = 0;
  std::vector<std::vector<std::byte>> spare_;  // buffers of messages that were taken
};

}  // namespace holdfast::comm
