// Mail lists: doubly linked lists through their nodes, which are linked into several at once. A
// node has `lists`, an array of MailLinks; a list is told which of them it uses.
#pragma once

#include <cstddef>

namespace holdfast::comm {

template <class Node>
struct MailLinks {
  Node* next = nullptr;
  Node* before = nullptr;
};

template <class Node>
struct MailList {
  Node* first = nullptr;
  Node* last = nullptr;

  bool empty() const { return first == nullptr; }

  void push(Node& node, std::size_t which) {
    node.lists[which] = {nullptr, last};
    (last == nullptr ? first : last->lists[which].next) = &node;
    last = &node;
  }

  void remove(Node& node, std::size_t which) {
    MailLinks<Node>& links = node.lists[which];
    (links.before == nullptr ? first : links.before->lists[which].next) = links.next;
    (links.next == nullptr ? last : links.next->lists[which].before) = links.before;
    links = {};
  }

  // Takes the first node; there must be one.
  Node& pop(std::size_t which) {
    Node& node = *first;
    remove(node, which);
    return node;
  }
};

}  // namespace holdfast::comm
