// Groups: makes a backend, and other groups from it by split, merge and shrink.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/node.h"

namespace holdfast::torch_backend {

class HoldfastBackend;

// The data that a group needs besides its members; later groups of the process are made with it.
struct Home {
  // Owners: every backend of the process, its Python module.
  std::shared_ptr<runtime::Node> node;
  c10::intrusive_ptr<c10d::Store> store;
  std::string group;
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds connect_timeout{};
};

// The members of a group: ranks of `parent`, or of torch's first process group when that one is not
// ours. Without ranks, the store's group is the only one of its name.
struct Members {
  std::vector<int> ranks;
  // Owners: the backend over the parent, and this.
  std::shared_ptr<comm::Communicator> parent;
};

// Runs the rendezvous of the members in home.store; collective over them. Throws StatusError.
std::shared_ptr<comm::Communicator> meet(const Home& home, int rank, int size,
                                         const Members& members = {});
// The same; makes a backend of the result.
c10::intrusive_ptr<HoldfastBackend> join(Home home, int rank, int size,
                                         const Members& members = {});

}  // namespace holdfast::torch_backend
