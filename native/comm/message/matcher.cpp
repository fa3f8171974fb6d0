#include "comm/message/matcher.h"

namespace holdfast::comm {
namespace {

// The kind of a pattern: bit 0, any source; bit 1, any tag.
constexpr std::size_t kAnySourceBit = 1;
constexpr std::size_t kAnyTagBit = 2;

std::size_t kind_of(const MailPattern& pattern) {
  return (pattern.source == kAnyMailSource ? kAnySourceBit : 0) |
         (pattern.tag == kAnyTag ? kAnyTagBit : 0);
}

MessageKey key_of(ContextId context, Rank source, std::int32_t tag, std::size_t kind) {
  const Rank from = (kind & kAnySourceBit) != 0 ? kAnyMailSource : source;
  const std::int32_t with = (kind & kAnyTagBit) != 0 ? kAnyTag : tag;
  return {CommId{context.value}, Epoch{static_cast<std::uint32_t>(from.value)},
          static_cast<std::uint32_t>(with), 0};
}

MessageKey key_of(const MailArrival& arrival, std::size_t kind) {
  return key_of(arrival.context, arrival.envelope.source, arrival.envelope.tag, kind);
}

MessageKey key_of(const MailPattern& pattern) {
  return key_of(pattern.context, pattern.source, pattern.tag, 0);
}

template <class Node>
void push(KeyTable<MailList<Node>>& queues, const MessageKey& key, Node& node, std::size_t which) {
  if (MailList<Node>* queue = queues.find(key)) return queue->push(node, which);
  MailList<Node> queue;
  queue.push(node, which);
  queues.put(key, queue);
}

// A queue that is empty goes: most tags are used once.
template <class Node>
void take(KeyTable<MailList<Node>>& queues, const MessageKey& key, Node& node, std::size_t which) {
  MailList<Node>* queue = queues.find(key);
  CHECK(queue != nullptr);
  queue->remove(node, which);
  if (queue->empty()) queues.take(key);
}

}  // namespace

MailArrival* Matcher::post(MailRequest& receive) {
  receive.order = next_order_++;
  if (MailArrival* arrival = find(receive.pattern)) {
    remove(*arrival);
    return arrival;
  }
  push(receives_[kind_of(receive.pattern)], key_of(receive.pattern), receive, 0);
  posted_.push(receive, kAllPosted);
  ++posted_count_;
  receive.linked = true;
  return nullptr;
}

MailRequest* Matcher::match(ContextId context, Rank source, std::int32_t tag) {
  MailRequest* first = nullptr;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (receives_[kind].empty()) continue;
    const auto* queue = receives_[kind].find(key_of(context, source, tag, kind));
    if (queue == nullptr) continue;
    if (first == nullptr || queue->first->order < first->order) first = queue->first;
  }
  if (first != nullptr) cancel(*first);
  return first;
}

void Matcher::cancel(MailRequest& receive) {
  CHECK(receive.linked);
  take(receives_[kind_of(receive.pattern)], key_of(receive.pattern), receive, 0);
  posted_.remove(receive, kAllPosted);
  --posted_count_;
  receive.linked = false;
}

void Matcher::keep(MailArrival& arrival) {
  arrival.order = next_order_++;
  index(arrival, kExact);
  for (std::size_t kind = 1; has_open_patterns_ && kind < kKinds; ++kind) index(arrival, kind);
  kept_.push(arrival, kAllKept);
  ++kept_count_;
}

void Matcher::remove(MailArrival& arrival) {
  unindex(arrival, kExact);
  for (std::size_t kind = 1; has_open_patterns_ && kind < kKinds; ++kind) unindex(arrival, kind);
  kept_.remove(arrival, kAllKept);
  --kept_count_;
}

MailArrival* Matcher::find(const MailPattern& pattern) {
  const std::size_t kind = kind_of(pattern);
  if (kind != kExact && !has_open_patterns_) index_all();
  if (arrivals_[kind].empty()) return nullptr;
  const auto* queue = arrivals_[kind].find(key_of(pattern));
  return queue == nullptr ? nullptr : queue->first;
}

void Matcher::index(MailArrival& arrival, std::size_t kind) {
  push(arrivals_[kind], key_of(arrival, kind), arrival, kind);
}

void Matcher::unindex(MailArrival& arrival, std::size_t kind) {
  take(arrivals_[kind], key_of(arrival, kind), arrival, kind);
}

// Programs that name what they receive do not pay for the other queues.
void Matcher::index_all() {
  has_open_patterns_ = true;
  for (MailArrival* a = kept_.first; a != nullptr; a = a->lists[kAllKept].next) {
    for (std::size_t kind = 1; kind < kKinds; ++kind) index(*a, kind);
  }
}

}  // namespace holdfast::comm
