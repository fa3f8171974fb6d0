#include "runtime/paths.h"

#include <algorithm>

namespace holdfast::runtime {
namespace {

using comm::Reach;

bool is_among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<Paths> Paths::open(const std::vector<std::string>& names,
                          const comm::PathSettings& settings) {
  Paths paths;
  for (const comm::TransportRow& row : comm::transports()) {
    const bool named = is_among(names, row.name);
    // If no named transport carries a control channel, the first one that can does.
    const bool first = paths.control_ == nullptr || named;
    if (row.make_stream != nullptr && first) paths.control_ = &row;
    if (!named || row.open == nullptr) continue;
    auto maker = row.open(settings);
    if (!maker.is_ok()) return maker.status();
    if (!maker.value()) {
      paths.lacks_memory_ = row.reach == Reach::kHost;
      continue;
    }
    if (maker.value()->fd() >= 0) paths.driven_.push_back(maker.value().get());
    paths.used_.push_back({&row, std::move(maker).value()});
  }
  return paths;
}

comm::PathMaker* Paths::find(const std::string& name) const {
  const auto at = std::find_if(used_.begin(), used_.end(),
                               [&](const Used& used) { return used.row->name == name; });
  return at == used_.end() ? nullptr : at->maker.get();
}

std::vector<std::string> Paths::names() const {
  std::vector<std::string> names;
  for (const Used& used : used_) names.emplace_back(used.row->name);
  return names;
}

bool Paths::shares_memory() const {
  return std::any_of(used_.begin(), used_.end(),
                     [](const Used& used) { return used.row->reach == Reach::kHost; });
}

std::vector<Offer> Paths::offers(const Card& callee, bool same_host,
                                 const std::function<void(const Status&)>& lacks) {
  std::vector<Offer> offers;
  for (Used& used : used_) {
    if (used.row->reach == Reach::kHost && !same_host) continue;
    if (!is_among(callee.transports, used.row->name)) continue;
    auto text = used.maker->offer(callee.member);
    if (text.is_ok()) {
      offers.push_back({std::string(used.row->name), std::move(text).value()});
    } else {
      lacks(text.status());
    }
  }
  return offers;
}

std::vector<Offer> Paths::answer(MemberId caller, const std::vector<Offer>& offers) {
  // Drops what was offered in a call that this process gave up.
  forget(caller);
  for (const Offer& offer : offers) {
    comm::PathMaker* maker = find(offer.transport);
    if (maker == nullptr) continue;
    std::string text = maker->accept(caller, offer.text);
    if (!text.empty()) return {{offer.transport, std::move(text)}};
  }
  return {};
}

std::unique_ptr<comm::DataPath> Paths::make(MemberId peer, const std::vector<Offer>& said,
                                            bool is_caller, comm::StreamLink& control) {
  std::unique_ptr<comm::DataPath> path;
  for (const Offer& offer : said) {
    comm::PathMaker* maker = find(offer.transport);
    if (maker == nullptr) continue;
    path = maker->make(peer, offer.text, is_caller, control);
    if (path) break;
  }
  forget(peer);
  return path;
}

void Paths::forget(MemberId peer) {
  for (Used& used : used_) used.maker->forget(peer);
}

void Paths::stop() {
  for (Used& used : used_) used.maker->stop();
}

std::vector<int> Paths::descriptors() const {
  std::vector<int> descriptors;
  for (const comm::PathMaker* maker : driven_) descriptors.push_back(maker->fd());
  return descriptors;
}

bool Paths::arm() {
  bool idle = true;
  for (comm::PathMaker* maker : driven_) idle = maker->arm() && idle;
  return idle;
}

bool Paths::progress() {
  bool moved = false;
  for (comm::PathMaker* maker : driven_) moved = maker->progress() || moved;
  return moved;
}

bool Paths::busy() const {
  return std::any_of(driven_.begin(), driven_.end(),
                     [](const comm::PathMaker* maker) { return maker->busy(); });
}

bool lays_memory_open(const Card& card) {
  return std::any_of(card.transports.begin(), card.transports.end(), [](const std::string& name) {
    const auto at = comm::transport_index(name);
    return at && comm::transports()[*at].reach == Reach::kHost;
  });
}

}  // namespace holdfast::runtime
