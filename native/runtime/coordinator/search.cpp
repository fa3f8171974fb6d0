#include "runtime/coordinator/search.h"

#include <algorithm>
#include <set>
#include <utility>

namespace holdfast::runtime {
namespace {

bool are_same(const Endpoint& one, const Endpoint& other) {
  return one.address == other.address && one.port == other.port;
}

}  // namespace

CoordinatorSearch::Place* CoordinatorSearch::find(const Endpoint& at) {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& place) { return are_same(place.at, at); });
  return found == places_.end() ? nullptr : &*found;
}

void CoordinatorSearch::set_hosts(const std::vector<std::vector<Endpoint>>& hosts, Instant now) {
  std::vector<Place> places;
  std::optional<std::size_t> fresh;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const Endpoint& at : hosts[host]) {
      // Two names may lead to one endpoint.
      const bool twice = std::any_of(places.begin(), places.end(),
                                     [&](const Place& place) { return are_same(place.at, at); });
      if (twice) continue;
      const Place* known = find(at);
      if (known == nullptr && !fresh) fresh = places.size();
      places.push_back(known == nullptr ? Place{at, host} : *known);
      places.back().host = host;
    }
  }
  places_ = std::move(places);
  hosts_ = hosts.size();
  // What is new is called at once: the coordinator may have moved there.
  turn_ = fresh ? *fresh : turn_ % std::max<std::size_t>(places_.size(), 1);
  due_ = now;
}

void CoordinatorSearch::begin(Instant now) {
  due_ = std::min(due_, now);
  if (since_) return;
  since_ = now;
  due_ = now;
  if (const Place* place = last_ ? find(*last_) : nullptr) {
    turn_ = static_cast<std::size_t>(place - places_.data());
  }
}

std::optional<Endpoint> CoordinatorSearch::next(Instant now) {
  if (now < due_) return std::nullopt;
  due_ = now + kAfterSilence;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[turn_];
    turn_ = (turn_ + 1) % places_.size();
    if (place.open) continue;
    place.open = true;
    return place.at;
  }
  return std::nullopt;
}

void CoordinatorSearch::on_failure(const Endpoint& at, const Status& why, Instant now) {
  due_ = std::min(due_, now + kAfterRefusal);
  Place* place = find(at);
  if (place == nullptr) return;
  place->open = false;
  place->failure = why;
}

void CoordinatorSearch::on_found(const Endpoint& at) {
  last_ = at;
  since_.reset();
  for (Place& place : places_) {
    place.open = false;
    place.failure = Status::ok();
  }
}

std::string CoordinatorSearch::text() const {
  std::string all;
  for (const Place& place : places_) {
    if (!place.open && place.failure.is_ok()) continue;
    const std::string why =
        place.failure.is_ok() ? to_string(place.at) + " does not answer" : place.failure.message();
    all += (all.empty() ? "" : "; ") + why;
  }
  return all;
}

Status CoordinatorSearch::hopeless() const {
  std::set<std::size_t> others;
  Status first = Status::ok();
  for (const Place& place : places_) {
    const Code code = place.failure.code();
    if (code == Code::kAuthFailed) return place.failure;
    if (code != Code::kProtocolError) continue;
    others.insert(place.host);
    if (first.is_ok()) first = place.failure;
  }
  return others.size() == hosts_ ? first : Status::ok();
}

}  // namespace holdfast::runtime
