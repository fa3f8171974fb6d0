// Groups: how a backend comes to be, and how other groups are made from it: split, merge, shrink.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/node.h"

namespace holdfast::torch_backend {

class HoldfastBackend;

// What a group needs beside its members; later groups of the same process are made with it.
struct Home {
  // Owners: every backend of the process, its Python module.
  std::shared_ptr<runtime::Node> node;
  c10::intrusive_ptr<c10d::Store> store;
  std::string group;
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds connect_timeout{};
  bool losses_raise = false;  // the option on_peer_loss
};

// Meets the other members in home.store; collective over them. Throws StatusError.
std::shared_ptr<comm::Communicator> meet(const Home& home, int rank, int size);
// The same, as a backend.
c10::intrusive_ptr<HoldfastBackend> join(Home home, int rank, int size);

}  // namespace holdfast::torch_backend
