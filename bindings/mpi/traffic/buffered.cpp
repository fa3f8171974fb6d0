#include "mpi/traffic/buffered.h"

#include <string>
#include <utility>

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/device_data.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {
namespace {

constexpr Duration kSliceOfBufferedWait = std::chrono::milliseconds(100);

}  // namespace

Failure BufferPool::send(const SendData& data, const Route& route) {
  const std::uint64_t bytes = data.type->bytes_of(data.count);
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
  if (!automatic && cost > size - used) {
    return {kErrBuffer, "the attached buffer of " + std::to_string(size) +
                            " bytes has no room for a message of " + std::to_string(bytes) +
                            " bytes and " + std::to_string(kBufferedOverhead) + " more"};
  }
  auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  Failure failure = pack_elements(*data.type, data.count, data.at, packed.get());
  if (failure.code != kSuccess) return failure;
  Copy& copy = copies.emplace_back();
  copy.data = std::move(packed);
  copy.cost = cost;
  used += cost;
  const Rank dest{route.comm->peers().process(route.peer)};
  mailbox.send(copy.mail, {route.comm->messages(),
                           dest,
                           route.tag,
                           comm::SendMode::kStandard,
                           {copy.data.get(), bytes, nullptr}});
  return {};
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
