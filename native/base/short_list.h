// ShortList: a list of small values that holds the first few inside itself, so that the usual list
// costs no allocation. Functions named as in std::vector mean the same.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdfast {

template <class T, std::size_t kInside>
class ShortList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  ShortList() {}
  ShortList(const ShortList& other) { *this = other; }
  ShortList(ShortList&& other) noexcept { *this = std::move(other); }
  ShortList& operator=(const ShortList& other) {
    if (this == &other) return *this;
    copy_inside(other);
    outside_ = other.outside_;
    return *this;
  }
  ShortList& operator=(ShortList&& other) noexcept {
    if (this == &other) return *this;
    copy_inside(other);
    outside_ = std::move(other.outside_);
    other.clear();
    return *this;
  }
  ShortList(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  // Implicit on purpose: callers pass vectors as lists.
  ShortList(const std::vector<T>& values) { assign(values.begin(), values.end()); }

  template <class It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(*first);
  }
  void push_back(const T& value) {
    if (outside_.empty() && inside_count_ < kInside) {
      inside_[inside_count_++] = value;
      return;
    }
    if (outside_.empty()) outside_.assign(inside_.begin(), inside_.end());
    outside_.push_back(value);
  }
  void clear() {
    inside_count_ = 0;
    outside_.clear();
  }

  void swap(ShortList& other) { std::swap(*this, other); }

  std::size_t size() const { return outside_.empty() ? inside_count_ : outside_.size(); }
  bool empty() const { return size() == 0; }
  T* data() { return outside_.empty() ? inside_.data() : outside_.data(); }
  const T* data() const { return outside_.empty() ? inside_.data() : outside_.data(); }
  T* begin() { return data(); }
  T* end() { return data() + size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size(); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  const T& back() const { return data()[size() - 1]; }

 private:
  void copy_inside(const ShortList& other) {
    std::copy_n(other.inside_.begin(), other.inside_count_, inside_.begin());
    inside_count_ = other.inside_count_;
  }

  union {
    std::array<T, kInside> inside_;  // the first inside_count_: to clear all costs more than an op
  };
  std::size_t inside_count_ = 0;
  std::vector<T> outside_;  // all values, if they do not fit inside
};

}  // namespace holdfast
