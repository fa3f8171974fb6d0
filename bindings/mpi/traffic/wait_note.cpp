#include "mpi/traffic/wait_note.h"

#include <algorithm>
#include <chrono>

#include "comm/communicator.h"
#include "mpi/comms/comm.h"
#include "mpi/core/process.h"
#include "mpi/traffic/messages.h"
#include "mpi/traffic/request.h"

namespace holdfast::mpi {
namespace {

// From when on a wait is worth a look, and how often it is told of again.
constexpr Duration kLongWait = std::chrono::milliseconds(200);
// A record has room for so many; more say no more.
constexpr std::size_t kMostPeers = 8;

Instant now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

void add_peer(Rank rank, std::vector<Rank>* peers) {
  if (std::find(peers->begin(), peers->end(), rank) == peers->end()) peers->push_back(rank);
}

// Which ranks of the world would end a receive from a rank of the communicator, or from any.
void add_sources(const Comm& comm, Rank source, std::vector<Rank>* peers) {
  if (source != comm::kAnyMailSource) return add_peer(source, peers);
  for (const int process_number : comm.peers().processes()) {
    const Rank rank{process_number};
    if (rank != process().world_group()->rank()) add_peer(rank, peers);
  }
}

}  // namespace

bool WaitNote::is_due() {
  const Instant at = now();
  if (first_ == Instant{}) first_ = told_at_ = at;
  if (at - told_at_ < kLongWait) return false;
  told_at_ = at;
  return true;
}

void WaitNote::look(const Request& request) {
  Request* const only = const_cast<Request*>(&request);
  look({&only, 1});
}

void WaitNote::look(std::span<Request* const> requests) {
  if (!is_due()) return;
  std::vector<Rank> peers;
  bool sends = true;
  for (const Request* request : requests) {
    if (request == nullptr || peers.size() >= kMostPeers) continue;
    const bool is_mail =
        request->what == Request::What::kSend || request->what == Request::What::kReceive;
    // The pattern is the caller's, and does not change while the request is under way.
    if (!is_mail || request->mail.is_done() || request->comm == nullptr) continue;
    if (request->what == Request::What::kReceive) {
      sends = false;
      add_sources(*request->comm, request->mail.pattern.source, &peers);
    } else {
      add_peer(request->mail.peer, &peers);
    }
  }
  if (!peers.empty()) tell(sends, std::move(peers));
}

void WaitNote::look(const Route& route) {
  if (!is_due()) return;
  std::vector<Rank> peers;
  add_sources(*route.comm, pattern_of(route).source, &peers);
  if (!peers.empty()) tell(false, std::move(peers));
}

void WaitNote::tell(bool sends, std::vector<Rank> peers) {
  if (peers.size() > kMostPeers) peers.resize(kMostPeers);
  if (told_) {
    return process().world_group()->tell_of_wait(told_, comm::WaitPhase::kGoesOn);
  }
  told_ = std::make_shared<comm::LongWait>();
  told_->request.collective = sends ? comm::Collective::kSend : comm::Collective::kRecv;
  told_->request.dtype = DType::kU8;
  told_->request.peer = peers.size() == 1 ? peers[0] : Rank{comm::kAnySource};
  told_->request.caller = caller_;
  told_->peers = std::move(peers);
  told_->seen = first_;
  process().world_group()->tell_of_wait(told_, comm::WaitPhase::kBegins);
}

void WaitNote::end() { process().world_group()->tell_of_wait(told_, comm::WaitPhase::kEnds); }

}  // namespace holdfast::mpi
