#include "mpi/traffic/partitions.h"

#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/messages.h"

namespace holdfast::mpi {

Partitions::Partitions(int parts)
    : count(parts), ready(std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(parts))) {}

Partitions::~Partitions() {
  if (!meets || meeting.is_done()) return;
  // A send of four bytes waits for credit alone; a receive may wait for ever.
  comm::Mailbox& mailbox = process().mailbox();
  while (!mailbox.cancel(meeting) && !mailbox.wait(meeting, kSliceOfWait)) {
    process().scripts.advance();
  }
}

void send_meeting(Partitions& parts, const Route& route) {
  // Relaxed: only the number itself counts. They begin again after 2^31 requests.
  const std::uint32_t number =
      process().next_partitions.fetch_add(1, std::memory_order_relaxed) & INT32_MAX;
  parts.number = static_cast<std::int32_t>(number);
  parts.meets = true;
  process().mailbox().send(parts.meeting, {route.comm->meetings(),
                                           Rank{route.comm->peers().process(route.peer)},
                                           route.tag,
                                           comm::SendMode::kStandard,
                                           {reinterpret_cast<const std::byte*>(&parts.number),
                                            sizeof parts.number, nullptr}});
}

void receive_meeting(Partitions& parts, const Route& route) {
  parts.meets = true;
  process().mailbox().receive(
      parts.meeting,
      {route.comm->meetings(), Rank{route.comm->peers().process(route.peer)}, route.tag},
      {reinterpret_cast<std::byte*>(&parts.number), sizeof parts.number, nullptr});
}

bool is_under_way(Request& request) {
  Partitions& parts = *request.partitions;
  if (parts.under_way.load(std::memory_order_acquire)) return true;
  if (parts.sends) return false;
  const std::lock_guard lock(parts.mutex);
  if (parts.under_way.load(std::memory_order_relaxed)) return true;
  if (!parts.meeting.is_done() && !process().mailbox().test(parts.meeting)) return false;
  // If the other end has gone, so that there is no number, the receive itself will say so.
  parts.begin(request);
  parts.under_way.store(true, std::memory_order_release);
  return true;
}

}  // namespace holdfast::mpi
