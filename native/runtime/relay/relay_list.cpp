#include "runtime/relay/relay_list.h"

#include <algorithm>
#include <utility>

namespace holdfast::runtime {

void RelayList::set(const std::vector<Endpoint>& places) {
  std::vector<KnownRelay> next;
  for (const Endpoint& at : places) {
    const KnownRelay* known = find(at);
    next.push_back(known == nullptr ? KnownRelay{at} : *known);
  }
  relays_ = std::move(next);
}

KnownRelay* RelayList::find(const Endpoint& at) {
  const auto found = std::ranges::find_if(relays_, [&](const KnownRelay& relay) {
    return relay.at.address == at.address && relay.at.port == at.port;
  });
  return found == relays_.end() ? nullptr : &*found;
}

const KnownRelay& RelayList::best() {
  const auto found = std::ranges::find_if(relays_, &KnownRelay::registered);
  return found == relays_.end() ? next() : *found;
}

void RelayList::note_failure(const Endpoint& at, const Status& why) {
  KnownRelay* relay = find(at);
  if (relay == nullptr) return;
  relay->failure = why;
  relay->failed = true;
}

Status RelayList::trouble() const {
  if (relays_.empty() || !std::ranges::all_of(relays_, &KnownRelay::failed)) return Status::ok();
  const auto for_good = [](const KnownRelay& relay) {
    const Code code = relay.failure.code();
    return code == Code::kAuthFailed || code == Code::kProtocolError || code == Code::kUnsupported;
  };
  const auto worst = std::ranges::find_if(relays_, for_good);
  const KnownRelay& told = worst == relays_.end() ? relays_.front() : *worst;
  return {worst == relays_.end() ? Code::kTimeout : Code::kConfigError,
          "relay " + to_string(told.at) + ": " + told.failure.message()};
}

}  // namespace holdfast::runtime
