// Key table: a hash table of values by message key. It uses open addressing with linear probing
// (Knuth, The Art of Computer Programming 3, 6.4, algorithms L and R). Its memory is kept while it
// has values, so that values come and go without an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "comm/transport/frame.h"

namespace holdfast::comm {

template <class Value>
class KeyTable {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  const Value* find(const MessageKey& key) const {
    if (size_ == 0) return nullptr;
    const KeyPlace& place = places_[seek(key)];
    return place.taken ? &place.value : nullptr;
  }
  Value* find(const MessageKey& key) {
    return const_cast<Value*>(std::as_const(*this).find(key));  // this table is not const
  }

  // Stores the value, and replaces the one with the same key if there is one.
  void put(const MessageKey& key, Value value) {
    if (2 * (size_ + 1) > places_.size()) grow();
    KeyPlace& place = places_[seek(key)];
    if (!place.taken) ++size_;
    place = {key, true, std::move(value)};
  }

  std::optional<Value> take(const MessageKey& key) {
    if (size_ == 0) return std::nullopt;
    const std::size_t at = seek(key);
    if (!places_[at].taken) return std::nullopt;
    std::optional<Value> value(std::move(places_[at].value));
    remove(at);
    shrink();
    return value;
  }

  // Removes the values for which `has_ended` is true; it is called at least once for each value.
  template <class Ended>
  void erase_if(const Ended& has_ended) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      while (places_[i].taken && has_ended(places_[i].key, places_[i].value)) remove(i);
    }
    shrink();
  }

 private:
  struct KeyPlace {
    MessageKey key;
    bool taken = false;
    Value value{};
  };
  static constexpr std::size_t kFewPlaces = 64;
  // An empty table keeps no more places than this.
  static constexpr std::size_t kMostIdlePlaces = 4096;

  std::size_t home(const MessageKey& key) const {
    const std::uint64_t within =
        (std::uint64_t{key.epoch.value} << 32 | key.op) * 0x9e37'79b9'7f4a'7c15;
    std::uint64_t hash = key.comm.value ^ within ^ (within >> 29);
    hash = (hash + key.ordinal) * 0xbf58'476d'1ce4'e5b9;
    return static_cast<std::size_t>(hash ^ (hash >> 32)) & (places_.size() - 1);
  }
  // The place of the key, or the free place where it would go.
  std::size_t seek(const MessageKey& key) const {
    std::size_t at = home(key);
    while (places_[at].taken && places_[at].key != key) at = next(at);
    return at;
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (places_.size() - 1); }

  void grow() {
    std::vector<KeyPlace> before(places_.empty() ? kFewPlaces : 2 * places_.size());
    before.swap(places_);
    for (KeyPlace& place : before) {
      if (place.taken) places_[seek(place.key)] = std::move(place);
    }
  }
  // Frees a place; entries behind it that could no longer be found move up.
  void remove(std::size_t hole) {
    for (std::size_t at = next(hole); places_[at].taken; at = next(at)) {
      const std::size_t mask = places_.size() - 1;
      const std::size_t way = (at - home(places_[at].key)) & mask;
      if (way < ((at - hole) & mask)) continue;
      places_[hole] = std::move(places_[at]);
      hole = at;
    }
    places_[hole] = {};
    --size_;
  }
  void shrink() {
    if (size_ == 0 && places_.size() > kMostIdlePlaces) places_ = {};
  }

  std::vector<KeyPlace> places_;  // a power of two of them, at most half of them taken
  std::size_t size_ = 0;
};

}  // namespace holdfast::comm
