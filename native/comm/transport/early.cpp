#include "comm/transport/early.h"

#include <algorithm>

#include "comm/transport/credit.h"

namespace holdfast::comm {
namespace {

// Most buffers that are kept for later messages.
constexpr std::size_t kMostSpareBuffers = 32;

std::uint64_t cost_of(const EarlyMessage& message) {
  return message.outlived ? 0 : early_cost(message.bytes.size());
}

}  // namespace

bool EarlyMessages::begin(const FrameHeader& header, std::uint64_t limit) {
  const std::uint64_t cost = early_cost(header.payload_bytes);
  if (cost > limit || cost_ > limit - cost) return false;
  cost_ += cost;
  key_ = header.key;
  arriving_ = {header.signature, header.total_bytes, take_spare(header.payload_bytes)};
  received_ = 0;
  return true;
}

void EarlyMessages::keep_arrived() { kept_.put(key_, std::move(arriving_)); }

std::uint64_t EarlyMessages::release(EarlyMessage message) {
  const std::uint64_t cost = cost_of(message);
  cost_ -= cost;
  give_spare(std::move(message.bytes));
  return cost;
}

std::uint64_t EarlyMessages::retire(CommId comm, Epoch epoch) {
  std::uint64_t cost = 0;
  kept_.erase_if([&](const MessageKey& key, const EarlyMessage& message) {
    if (key.comm != comm || key.epoch != epoch) return false;
    cost += cost_of(message);
    return true;
  });
  cost_ -= cost;
  return cost;
}

void EarlyMessages::outlive_connection() {
  kept_.erase_if([](const MessageKey&, const EarlyMessage& message) { return message.outlived; });
  kept_.erase_if([](const MessageKey&, EarlyMessage& message) {
    message.outlived = true;
    return false;
  });
  arriving_ = {};
  received_ = 0;
  cost_ = 0;
}

std::vector<std::byte> EarlyMessages::take_spare(std::size_t size) {
  const auto fits = [&](const auto& spare) { return spare.capacity() >= size; };
  auto found = std::find_if(spare_.begin(), spare_.end(), fits);
  if (size == 0 || found == spare_.end()) return std::vector<std::byte>(size);
  std::vector<std::byte> bytes = std::move(*found);
  spare_.erase(found);
  bytes.resize(size);
  return bytes;
}

// Keeps a buffer for later messages; when there are enough, the largest stay.
void EarlyMessages::give_spare(std::vector<std::byte> bytes) {
  if (bytes.capacity() == 0) return;
  bytes.clear();
  spare_.push_back(std::move(bytes));
  if (spare_.size() <= kMostSpareBuffers) return;
  spare_.erase(std::min_element(spare_.begin(), spare_.end(), [](const auto& a, const auto& b) {
    return a.capacity() < b.capacity();
  }));
}

}  // namespace holdfast::comm
