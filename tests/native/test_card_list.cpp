// Cards of a view: copies share them until one is changed.
#include <doctest/doctest.h>

#include <utility>

#include "ft/message.h"

namespace holdfast::ft {
namespace {

TEST_CASE("copies of a view share their cards, and one that changes a card has its own") {
  WorldView view;
  view.members = {{1}, {2}, {3}};
  view.cards = {"a", "b", "c"};
  WorldView next = view;
  const auto text_of = [](const WorldView& of) { return of.cards[0].data(); };
  CHECK(text_of(next) == text_of(view));
  next.members[1] = kNobody;
  CHECK(text_of(next) == text_of(view));
  next.forget_vacated();
  CHECK(text_of(next) != text_of(view));
  CHECK(std::as_const(view).cards[1] == "b");
  CHECK(std::as_const(next).cards[1].empty());
  CHECK_FALSE(next.cards == view.cards);
  next.cards[1] = "b";
  CHECK(next.cards == view.cards);
}

TEST_CASE("what changes nothing copies no cards") {
  WorldView view;
  view.members = {{1}, kNobody};
  view.cards = {"a", ""};
  WorldView next = view;
  next.cards.resize(2);
  next.forget_vacated();
  CHECK(std::as_const(next).cards[0].data() == std::as_const(view).cards[0].data());
}

TEST_CASE("a list of no cards is like any other") {
  CardList none;
  CHECK(none.size() == 0);
  CHECK(none.begin() == none.end());
  CHECK(none == CardList{});
  CardList grown = none;
  grown.resize(2, "x");
  grown.push_back("y");
  CHECK(grown == CardList{"x", "x", "y"});
  CHECK(none.size() == 0);
}

}  // namespace
}  // namespace holdfast::ft
