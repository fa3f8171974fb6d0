#include "comm/engine/pull_run.h"

#include <algorithm>
#include <string>

#include "base/copy.h"

namespace holdfast::comm {
namespace {

// Bytes fetched in one go before links are polled again.
constexpr std::uint64_t kFetchBytes = 1024 * 1024;

// Bytes of one rank for the others from which waking them early pays; smaller ops are fetched when
// all ranks have exposed.
constexpr std::uint64_t kWorthWaking = 1024 * 1024;

// Reads a value exactly once, from memory that its owner may write to at any time.
template <class T>
T once(const T& shared) {
  return *static_cast<const volatile T*>(&shared);
}

}  // namespace

PullRun::PullRun(SliceExchange& exchange, const OpRequest& request, std::uint32_t signature,
                 std::uint64_t number)
    : x_(exchange), request_(request), signature_(signature), number_(number) {
  for (int r = 0; r < x_.size(); ++r) {
    const Block* block = incoming(r);
    PullSource source;
    source.ended = block == nullptr || r == x_.rank_;
    if (block != nullptr) source.to = block->data, source.bytes = bytes_of(*block);
    sources_.push_back(source);
  }
}

bool PullRun::moves(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter: return true;
    default: return false;
  }
}

const Block* PullRun::outgoing(int rank) const {
  switch (request_.collective) {
    case Collective::kAllGather: return &request_.input[0];
    case Collective::kBroadcast: return is_root(x_.rank_) ? &request_.input[0] : nullptr;
    case Collective::kAllToAll: return &request_.input[static_cast<std::size_t>(rank)];
    case Collective::kGather: return is_root(rank) ? &request_.input[0] : nullptr;
    case Collective::kScatter:
      return is_root(x_.rank_) ? &request_.input[static_cast<std::size_t>(rank)] : nullptr;
    default: return nullptr;
  }
}

const Block* PullRun::incoming(int rank) const {
  switch (request_.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll: return &request_.output[static_cast<std::size_t>(rank)];
    case Collective::kBroadcast:
    case Collective::kScatter: return is_root(rank) ? &request_.output[0] : nullptr;
    case Collective::kGather:
      return is_root(x_.rank_) ? &request_.output[static_cast<std::size_t>(rank)] : nullptr;
    default: return nullptr;
  }
}

// An op overwrites the table of the op before last, so all ranks must have ended that op.
bool PullRun::can_begin() const {
  return number_ < 2 || x_.all_at(&SliceArea::SliceHalf::ended, mark() - 2);
}

int PullRun::next_source() const {
  // Each rank starts with the rank after it, so that not all of them fetch from the same one.
  for (int i = 1; i < x_.size(); ++i) {
    const int r = (x_.rank_ + i) % x_.size();
    const PullSource& source = sources_[static_cast<std::size_t>(r)];
    if (source.ended || source.gone) continue;
    if (reached(x_.area(r).begun, mark())) return r;
  }
  return -1;
}

void PullRun::advance() {
  if (finished_ || !failure_.is_ok() || number_ != x_.ended_) return;
  if (!begun_) {
    if (!can_begin()) return;
    begin();
  }
  if (const int rank = next_source(); rank >= 0) fetch(rank);
  const bool all = std::all_of(sources_.begin(), sources_.end(),
                               [](const PullSource& source) { return source.ended; });
  if (!all || !failure_.is_ok()) return;
  finished_ = true;
  x_.end_op(number_, 0);
}

void PullRun::begin() {
  begun_ = true;
  const std::uint64_t exposed = expose();
  SliceArea::SliceHalf& own = x_.area(x_.rank_);
  own.begun.store(mark(), std::memory_order_release);  // release: the table is written
  ring(exposed);
  const Block* out = outgoing(x_.rank_);
  const Block* in = incoming(x_.rank_);
  if (out == nullptr || in == nullptr || in->data == out->data || out->count == 0) return;
  copy_bytes(in->data, out->data, bytes_of(*out));
}

// Peers get one wake-up when all ranks have exposed their blocks, or an early one where fetching
// this rank's blocks takes longer than a wake-up.
void PullRun::ring(std::uint64_t bytes) {
  const bool alone = facts_of(request_.collective).root == RootRole::kGives;
  if (alone ? is_root(x_.rank_) : bytes > kWorthWaking) {
    x_.ring_all();
  } else if (!alone) {
    x_.ring_if_last(&SliceArea::SliceHalf::begun, mark() - 1);
  }
}

std::uint64_t PullRun::expose() {
  SliceArea::Exposed& table = x_.area(x_.rank_).exposed[number_ % 2];
  table.signature = signature_;
  std::uint64_t total = 0;
  for (int r = 0; r < x_.size(); ++r) {
    const Block* block = r == x_.rank_ ? nullptr : outgoing(r);
    auto& entry = table.blocks[static_cast<std::size_t>(r)];
    entry = {};
    if (block == nullptr) continue;
    entry.bytes = bytes_of(*block);
    entry.address = reinterpret_cast<std::uintptr_t>(block->data);
    total += entry.bytes;
  }
  table.is_inline = total <= kInlineBytes;
  if (!table.is_inline) {
    lend(table);
    return total;
  }
  std::uint64_t at = 0;
  for (int r = 0; r < x_.size(); ++r) {
    auto& entry = table.blocks[static_cast<std::size_t>(r)];
    if (entry.bytes == 0) continue;
    copy_bytes(table.data + at, reinterpret_cast<const std::byte*>(entry.address), entry.bytes);
    entry.address = at;
    at += entry.bytes;
  }
  return total;
}

// Says where blocks lie in the memory pool: peers read those without a system call.
void PullRun::lend(SliceArea::Exposed& table) const {
  for (int r = 0; r < x_.size(); ++r) {
    auto& entry = table.blocks[static_cast<std::size_t>(r)];
    if (entry.bytes == 0) continue;
    const PoolPlace place =
        x_.find_in_pool(reinterpret_cast<const std::byte*>(entry.address), entry.bytes);
    entry.arena = place.arena;
    entry.offset = place.offset;
  }
}

void PullRun::check(int rank, const SliceArea::Exposed& theirs) {
  PullSource& source = sources_[static_cast<std::size_t>(rank)];
  source.checked = true;
  const std::uint64_t bytes = theirs.blocks[static_cast<std::size_t>(x_.rank_)].bytes;
  if (theirs.signature == signature_ && bytes == source.bytes) return;
  if (!x_.is_still_here(rank)) {
    source.gone = true;
    return;
  }
  failed_peer_ = {rank};
  failure_ = {Code::kProtocolError,
              "calls do not match: this rank expects " + std::to_string(source.bytes) +
                  " bytes of rank " + std::to_string(rank) + ", which has " +
                  std::to_string(bytes) +
                  (bytes == source.bytes ? " but another call, now or earlier" : "")};
}

// Copies the next bytes of a block; false when they cannot be read.
bool PullRun::take(int rank, const SliceArea::Exposed& theirs, std::uint64_t bytes) {
  const PullSource& source = sources_[static_cast<std::size_t>(rank)];
  std::byte* to = source.to + source.done;
  // Read once: the table's owner may write to it at the same time, for a later view.
  const std::uint64_t address = once(theirs.blocks[static_cast<std::size_t>(x_.rank_)].address);
  if (once(theirs.is_inline) == 0) {
    const auto& entry = theirs.blocks[static_cast<std::size_t>(x_.rank_)];
    const PoolPlace place{once(entry.arena), once(entry.offset)};
    if (place.arena != 0 && !passed(x_.area(rank).withdrawn, mark())) {
      if (const std::byte* lent = x_.map(rank, place, source.bytes)) {
        copy_bytes(to, lent + source.done, bytes);
        return true;
      }
    }
    const auto& memory = x_.peers_[static_cast<std::size_t>(rank)].memory;
    return memory->read(to, address + source.done, bytes);
  }
  if (address > kInlineBytes || source.bytes > kInlineBytes - address) return false;
  copy_bytes(to, theirs.data + address + source.done, bytes);
  return true;
}

void PullRun::fetch(int rank) {
  PullSource& source = sources_[static_cast<std::size_t>(rank)];
  const SliceArea::SliceHalf& area = x_.area(rank);
  const SliceArea::Exposed& theirs = area.exposed[number_ % 2];
  if (!source.checked) check(rank, theirs);
  if (!failure_.is_ok() || source.gone) return;
  const std::uint64_t part = std::min(source.bytes - source.done, kFetchBytes);
  if (part > 0) {
    // The checks after take() must follow the read.
    source.gone =
        !take(rank, theirs, part) || !x_.is_still_here(rank) || passed(area.withdrawn, mark());
    if (source.gone) return;  // failure detection reports it
  }
  source.done += part;
  source.ended = source.done == source.bytes;
}

std::vector<Rank> PullRun::waited_for() const {
  std::vector<Rank> ranks;
  if (number_ != x_.ended_) return ranks;
  if (!begun_) {
    for (int r = 0; r < x_.size(); ++r) {
      if (r != x_.rank_ && number_ >= 2 && !reached(x_.area(r).ended, mark() - 2)) {
        ranks.push_back({r});
      }
    }
    return ranks;
  }
  for (std::size_t r = 0; r < sources_.size(); ++r) {
    if (!sources_[r].ended) ranks.push_back({static_cast<std::int32_t>(r)});
  }
  return ranks;
}

std::vector<Execution::HeldPiece> PullRun::held() const {
  std::vector<HeldPiece> result;
  if (!begun_) return result;
  const std::uint64_t element = request_.element_bytes();
  for (int r = 0; r < x_.size(); ++r) {
    const PullSource& source = sources_[static_cast<std::size_t>(r)];
    if (source.to == nullptr) continue;
    const std::uint64_t bytes = r == x_.rank_ ? source.bytes : source.done / element * element;
    if (bytes > 0) result.push_back({source.to, bytes});
  }
  return result;
}

BufferPool::Buffer PullRun::stop() {
  if (begun_ && !finished_) take_back(x_.area(x_.rank_).withdrawn, mark());
  finished_ = true;
  return {};
}

}  // namespace holdfast::comm
