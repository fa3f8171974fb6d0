// Writer and reader of little-endian fields. The reader never reads beyond its bytes, and refuses a
// count before anything is sized by it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace holdfast {

class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    for (std::size_t i = 0; i < sizeof value; ++i) {
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  // Writes seven bits to a byte, the lowest first: small values are short.
  void count(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }
  void bytes(std::span<const std::byte> bytes) {
    count(bytes.size());
    raw(bytes);
  }
  // Writes bytes without their count, which the reader must know.
  void raw(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void zeros(std::size_t size) { out_.resize(out_.size() + size); }
  void text(const std::string& text) { bytes(std::as_bytes(std::span(text))); }
  template <class List, class Each>
  void list(const List& list, Each each) {
    count(list.size());
    for (const auto& item : list) each(item);
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool failed() const { return failed_; }
  // Whether everything was read, and nothing is left.
  bool ended() const { return !failed_ && rest_.empty(); }
  void require(bool sound) { failed_ = failed_ || !sound; }

  template <class T>
  T number() {
    T value{};
    if (rest_.size() < sizeof value) {
      failed_ = true;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  // Each value has one encoding: other forms are refused, so writing what was read gives the same
  // bytes.
  std::uint64_t count() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto part = std::uint64_t{number<std::uint8_t>()};
      value |= (part & 0x7f) << shift;
      if (part >= 0x80) continue;
      failed_ = failed_ || (shift > 0 && part == 0) || (shift == 63 && part > 1);
      return failed_ ? 0 : value;
    }
    failed_ = true;
    return 0;
  }
  // A count of at most `most`.
  std::uint64_t count(std::uint64_t most) {
    const std::uint64_t value = count();
    if (value <= most) return value;
    failed_ = true;
    return 0;
  }
  // A count below `size`.
  std::uint64_t index(std::uint64_t size) {
    require(size > 0);
    return failed_ ? 0 : count(size - 1);
  }
  // A byte that is 0 or 1.
  bool flag() {
    const auto value = number<std::uint8_t>();
    require(value <= 1);
    return value == 1;
  }
  // The next `size` bytes, in the reader's memory; empty if there are fewer.
  std::span<const std::byte> raw(std::size_t size) {
    if (failed_ || size > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::span<const std::byte> part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }
  // What is left, to the end.
  std::span<const std::byte> rest() { return raw(rest_.size()); }
  std::vector<std::byte> bytes(std::size_t most) {
    const std::span<const std::byte> part = take(most);
    return {part.begin(), part.end()};
  }
  std::string text(std::size_t most) {
    const std::span<const std::byte> part = take(most);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  // Calls `each` for every item; at most `most` items of at least `least` bytes.
  template <class Each>
  void list(std::size_t most, std::size_t least, Each each) {
    const std::size_t items = count(most);
    if (items * least > rest_.size()) failed_ = true;
    for (std::size_t i = 0; i < items && !failed_; ++i) each();
  }

 private:
  std::span<const std::byte> take(std::size_t most) { return raw(count(most)); }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace holdfast
