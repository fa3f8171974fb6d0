#include "comm/transport/pool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace holdfast::comm {
namespace {

constexpr std::uint64_t kPoolAlignment = 64;
constexpr std::uint64_t kHugePage = 2ULL << 20;
// More than any machine has, yet small enough that the sum of two sizes does not overflow.
constexpr std::uint64_t kMostBytes = 1ULL << 56;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

class MappedPool final : public PeerPool {
 public:
  const std::byte* at(const PoolDirectory& directory, const PoolPlace& place,
                      std::uint64_t bytes) override {
    if (place.arena == 0 || place.arena > kMaxArenas) return nullptr;
    const std::size_t index = place.arena - 1;
    if (!arenas_[index] && !map(directory, index)) return nullptr;
    const std::uint64_t size = arenas_[index].size();
    if (bytes > size || place.offset > size - bytes) return nullptr;
    return arenas_[index].data() + place.offset;
  }

 private:
  bool map(const PoolDirectory& directory, std::size_t index) {
    // acquire: the entry was written before it was counted
    if (index >= directory.count.load(std::memory_order_acquire)) return false;
    const PoolDirectory::LentArena& entry = directory.arenas[index];
    const std::string name(entry.name, ::strnlen(entry.name, sizeof entry.name));
    auto opened = Segment::open(name, entry.bytes);
    if (!opened.is_ok()) return false;
    arenas_[index] = std::move(opened).value();
    return true;
  }

  Segment arenas_[kMaxArenas];
};

}  // namespace

MemoryPool::MemoryPool() : process_(static_cast<std::uint64_t>(::getpid())) {}

bool MemoryPool::is_forked() const { return process_ != static_cast<std::uint64_t>(::getpid()); }

MemoryPool::~MemoryPool() {
  if (!is_forked()) return;
  // In a forked child the segments' names are the parent's, so they must not be unlinked here.
  for (auto& arena : arenas_) [[maybe_unused]] const auto* forgotten = arena.release();
}

// Takes the first place that fits: a program's tensors are few and live long.
std::byte* MemoryPool::take(Arena& arena, std::uint64_t bytes) {
  for (auto at = arena.free.begin(); at != arena.free.end(); ++at) {
    const auto [offset, size] = *at;
    if (size < bytes) continue;
    arena.free.erase(at);
    if (size > bytes) arena.free[offset + bytes] = size - bytes;
    return arena.segment.data() + offset;
  }
  return nullptr;
}

bool MemoryPool::add_arena(std::uint64_t bytes) {
  if (arenas_.size() == kMaxArenas) return false;
  const std::uint64_t wanted = std::max({bytes, kSmallestArena, std::min(total_, kLargestStep)});
  auto segment = Segment::create_for_tensors("pool", round_up(wanted, kHugePage));
  if (!segment.is_ok()) return false;
  auto arena = std::make_unique<Arena>();
  arena->segment = std::move(segment).value();
  arena->free[0] = arena->segment.size();
  total_ += arena->segment.size();
  arenas_.push_back(std::move(arena));
  return true;
}

std::byte* MemoryPool::allocate(std::uint64_t bytes) {
  // A forked child would write to the same memory as its parent.
  if (bytes > kMostBytes || is_forked()) return nullptr;
  const std::uint64_t size = round_up(std::max<std::uint64_t>(bytes, 1), kPoolAlignment);
  const std::lock_guard lock(mutex_);
  std::byte* data = nullptr;
  for (const auto& arena : arenas_) {
    if (data == nullptr) data = take(*arena, size);
  }
  if (data == nullptr && add_arena(size)) data = take(*arenas_.back(), size);
  if (data == nullptr) data = static_cast<std::byte*>(std::aligned_alloc(kPoolAlignment, size));
  if (data != nullptr) used_[data] = size;
  return data;
}

MemoryPool::Arena* MemoryPool::arena_of(const std::byte* data) {
  for (const auto& arena : arenas_) {
    const std::byte* begin = arena->segment.data();
    if (data >= begin && data < begin + arena->segment.size()) return arena.get();
  }
  return nullptr;
}

void MemoryPool::release(std::byte* data) {
  // In a forked child the memory is still the parent's, and another thread of the parent may have
  // held the lock at the fork.
  if (is_forked()) return;
  const std::lock_guard lock(mutex_);
  const auto at = used_.find(data);
  CHECK(at != used_.end());
  std::uint64_t size = at->second;
  used_.erase(at);
  Arena* arena = arena_of(data);
  if (arena == nullptr) return std::free(data);
  auto offset = static_cast<std::uint64_t>(data - arena->segment.data());
  auto next = arena->free.lower_bound(offset);
  if (next != arena->free.end() && next->first == offset + size) {
    size += next->second;
    next = arena->free.erase(next);
  }
  if (next != arena->free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  arena->free[offset] = size;
}

void MemoryPool::unlink() {
  if (is_forked()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& arena : arenas_) arena->segment.unlink();
}

PoolPlace MemoryPool::find(const std::byte* data, std::uint64_t bytes, PoolDirectory& directory) {
  const std::lock_guard lock(mutex_);
  const Arena* arena = arena_of(data);
  if (arena == nullptr) return {};
  const auto offset = static_cast<std::uint64_t>(data - arena->segment.data());
  if (bytes > arena->segment.size() - offset) return {};
  std::uint32_t number = 0;
  while (arenas_[number++].get() != arena) continue;
  // relaxed: only this process writes the directory.
  for (std::uint32_t i = directory.count.load(std::memory_order_relaxed); i < number; ++i) {
    const Segment& segment = arenas_[i]->segment;
    PoolDirectory::LentArena& entry = directory.arenas[i];
    if (segment.name().size() >= sizeof entry.name) return {};
    std::memcpy(entry.name, segment.name().c_str(), segment.name().size() + 1);
    entry.bytes = segment.size();
    directory.count.store(i + 1, std::memory_order_release);  // release: the entry is written
  }
  return {number, offset};
}

std::shared_ptr<PeerPool> make_peer_pool() { return std::make_shared<MappedPool>(); }

}  // namespace holdfast::comm
