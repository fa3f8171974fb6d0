// Groups: how a backend comes to be, and how other groups are made from it: split, merge, shrink.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

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

// Who is in a group: ranks of `parent`, or of the process group that torch made first where that is
// not one of ours. Neither: the store's group is the only one of its name.
struct Members {
  std::vector<int> ranks;
  // Owners: the backend over it, and this.
  std::shared_ptr<comm::Communicator> parent;
};

// Meets the other members in home.store; collective over them. Throws StatusError.
std::shared_ptr<comm::Communicator> meet(const Home& home, int rank, int size,
                                         const Members& members = {});
// The same, as a backend.
c10::intrusive_ptr<HoldfastBackend> join(Home home, int rank, int size,
                                         const Members& members = {});

}  // namespace holdfast::torch_backend
