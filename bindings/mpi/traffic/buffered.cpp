#include "mpi/traffic/buffered.h"

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

constexpr Duration kSliceOfBufferedWait = std::chrono::milliseconds(100);

}  // namespace

bool BufferPool::send(const SendData& data, const Route& route) {
  const auto packer = data.type->packer(data.count);
  const std::uint64_t bytes = packer.bytes();
  const std::int64_t cost = static_cast<std::int64_t>(bytes) + kBufferedOverhead;
  comm::Mailbox& mailbox = process().mailbox();
  const std::lock_guard lock(mutex);
  for (auto copy = copies.begin(); copy != copies.end();) {
    if (!mailbox.test(copy->mail)) {
      ++copy;
      continue;
    }
    used -= copy->cost;
    copy = copies.erase(copy);
  }
  if (!automatic && cost > size - used) return false;
  Copy& copy = copies.emplace_back();
  copy.data = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  copy.cost = cost;
  used += cost;
  packer.pack(static_cast<const std::byte*>(data.at), 0, {copy.data.get(), bytes});
  const Rank dest{route.comm->peers().process(route.peer)};
  mailbox.send(copy.mail, {route.comm->messages(),
                           dest,
                           route.tag,
                           comm::SendMode::kStandard,
                           {copy.data.get(), bytes, nullptr}});
  return true;
}

void BufferPool::flush() {
  comm::Mailbox& mailbox = process().mailbox();
  const std::lock_guard lock(mutex);
  for (Copy& copy : copies) {
    while (!mailbox.wait(copy.mail, kSliceOfBufferedWait)) process().scripts.advance();
  }
  copies.clear();
  used = 0;
}

std::shared_ptr<BufferPool> pool_of(const Comm& comm) {
  return comm.buffer ? comm.buffer : process().buffer;
}

}  // namespace holdfast::mpi
