// Worlds of nodes, each on a thread of its own, over real shared memory and real sockets.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "memory_store.h"
#include "runtime/node.h"

namespace holdfast::testing {

using comm::Collective;
using comm::OpRequest;
using runtime::Node;
using runtime::Options;
using std::chrono::seconds;

struct Member {
  std::shared_ptr<Node> node;
  std::shared_ptr<comm::Communicator> group;
};

inline Options options_for(const std::string& transport) {
  Options options;
  options.transports = {transport};
  options.timeout = seconds(60);
  options.connect_timeout = seconds(30);
  options.address = "127.0.0.1";
  return options;
}

// Runs `body` as every rank of a world; failures are collected, for doctest's checks belong to one
// thread.
inline std::vector<std::string> run_world(int size, const std::string& transport,
                                          const std::function<std::string(int, Member&)>& body,
                                          const std::function<void(Options&)>& adjust = {}) {
  MemoryStore store;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      std::string& error = errors[static_cast<std::size_t>(r)];
      Options options = options_for(transport);
      if (adjust) adjust(options);
      auto node = Node::create(options);
      if (!node.is_ok()) {
        error = node.status().message();
        return;
      }
      auto group = node.value()->join(store, {"world", {r}, size, {}, {}});
      if (!group.is_ok()) {
        error = group.status().message();
        return;
      }
      Member member{node.value(), group.value()};
      error = body(r, member);
    });
  }
  for (std::thread& t : threads) t.join();
  return errors;
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

inline comm::Block block(std::vector<float>& v) {
  return {reinterpret_cast<std::byte*>(v.data()), v.size()};
}

inline OpRequest all_reduce(std::vector<float>& v) {
  OpRequest request;
  request.collective = Collective::kAllReduce;
  request.input = request.output = {block(v)};
  return request;
}

}  // namespace holdfast::testing
