// Card list: the cards of a view by rank, of which copies share one text until one of them is
// changed. A view is copied many times (what was accepted, decided, adopted; past views), and its
// cards hardly ever change: those of 1,000 ranks take 200 KiB in each copy.
//
// Thread: copies of a view belong to the holder of the runtime, and so does what they share.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::ft {

class CardList {
 public:
  using Cards = std::vector<std::string>;

  CardList() = default;
  CardList(std::initializer_list<std::string> cards) : cards_(std::make_shared<Cards>(cards)) {}

  std::size_t size() const { return cards_ ? cards_->size() : 0; }
  const std::string& operator[](std::size_t rank) const { return (*cards_)[rank]; }
  Cards::const_iterator begin() const { return all().begin(); }
  Cards::const_iterator end() const { return all().end(); }

  std::string& operator[](std::size_t rank) { return own()[rank]; }
  void push_back(std::string card) { own().push_back(std::move(card)); }
  template <class... Parts>
  void emplace_back(Parts&&... parts) {
    own().emplace_back(std::forward<Parts>(parts)...);
  }
  void resize(std::size_t ranks, const std::string& card = {}) {
    if (ranks != size()) own().resize(ranks, card);
  }

  friend bool operator==(const CardList& a, const CardList& b) {
    return a.cards_ == b.cards_ || a.all() == b.all();
  }

 private:
  const Cards& all() const {
    static const Cards none;
    return cards_ ? *cards_ : none;
  }
  // What is shared is copied before it is changed.
  Cards& own() {
    if (!cards_) {
      cards_ = std::make_shared<Cards>();
    } else if (cards_.use_count() > 1) {
      cards_ = std::make_shared<Cards>(*cards_);
    }
    return *cards_;
  }

  std::shared_ptr<Cards> cards_;  // owners: the copies of this list; null: none
};

}  // namespace holdfast::ft
