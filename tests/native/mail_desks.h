// Mailboxes of several ranks in one thread, without I/O: each has a core and its ways, and what
// goes over links lies in pipes, from which a test delivers it, or loses it with its link. Ranks of
// one host also share memory that is a vector.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/message/mail_core.h"
#include "comm/message/mail_memory.h"
#include "comm/message/mail_ways.h"

namespace holdfast::testing {

// What the processes of one host have in common, and what their system allows.
struct MailHostMemory {
  struct alignas(comm::kMailLine) Line {
    std::array<std::byte, comm::kMailLine> bytes{};
  };
  std::map<std::string, std::shared_ptr<std::vector<Line>>> segments;
  bool may_make = true;
  bool may_open = true;
  bool may_reach = true;
  int reads = 1 << 30;  // of other processes' memory that succeed
};

class VectorSegment final : public comm::MailSegment {
 public:
  VectorSegment(std::string name, MailHostMemory& host)
      : name_(std::move(name)), host_(host), lines_(host.segments.at(name_)) {}
  std::byte* data() const override { return lines_->front().bytes.data(); }
  const std::string& name() const override { return name_; }
  void unlink() override { host_.segments.erase(name_); }

 private:
  std::string name_;
  MailHostMemory& host_;
  std::shared_ptr<std::vector<MailHostMemory::Line>> lines_;  // owners: those who have it open
};

class OwnMemory final : public comm::ProcessMemory {
 public:
  explicit OwnMemory(MailHostMemory& host) : host_(host) {}
  bool read(std::byte* to, std::uint64_t address, std::uint64_t bytes) const override {
    if (host_.reads-- <= 0) return false;
    std::memcpy(to, reinterpret_cast<const std::byte*>(address), bytes);
    return true;
  }

 private:
  MailHostMemory& host_;
};

class VectorMemory final : public comm::MailMemory {
 public:
  VectorMemory(MailHostMemory& host, std::string name) : host_(host), name_(std::move(name)) {}
  Result<std::unique_ptr<comm::MailSegment>> make(std::size_t bytes) override {
    if (!host_.may_make) return Status{Code::kSystem, "no memory is left"};
    const std::string name = name_ + "-" + std::to_string(made_++);
    const std::size_t lines = bytes / comm::kMailLine;
    host_.segments[name] = std::make_shared<std::vector<MailHostMemory::Line>>(lines);
    return std::unique_ptr<comm::MailSegment>(std::make_unique<VectorSegment>(name, host_));
  }
  Result<std::unique_ptr<comm::MailSegment>> open(const std::string& name,
                                                  std::size_t bytes) override {
    const auto found = host_.segments.find(name);
    if (!host_.may_open || found == host_.segments.end() ||
        found->second->size() * comm::kMailLine != bytes) {
      return Status{Code::kConfigError, "no such memory: " + name};
    }
    return std::unique_ptr<comm::MailSegment>(std::make_unique<VectorSegment>(name, host_));
  }
  comm::MemoryOwner self() const override { return {1, 2, 3}; }
  std::shared_ptr<comm::ProcessMemory> reach(const comm::MemoryOwner&) override {
    return host_.may_reach ? std::make_shared<OwnMemory>(host_) : nullptr;
  }

 private:
  MailHostMemory& host_;
  std::string name_;
  int made_ = 0;
};

struct MailDesk {
  MailDesk(int rank, int size, const comm::MailLimits& limits, MailHostMemory& host)
      : memory(host, "mail-" + std::to_string(rank)),
        core({rank}, size, limits),
        ways(core, memory) {}

  VectorMemory memory;
  comm::MailCore core;
  comm::MailWays ways;
  comm::BellWords bell{};
};

struct DeskOptions {
  int size = 2;
  comm::MailLimits limits{};
  bool one_host = false;  // else a link is all there is
};

class MailDesks {
 public:
  using Frame = comm::MailTrunk::TrunkFrame;

  explicit MailDesks(const DeskOptions& options) : one_host_(options.one_host) {
    for (int r = 0; r < options.size; ++r) {
      desks_.push_back(std::make_unique<MailDesk>(r, options.size, options.limits, host));
    }
    pipes_.resize(desks_.size() * desks_.size());
  }
  // Every rank greets every other.
  void greet() {
    each_pair([&](int a, int b) { desks_[index(a)]->ways.seat({b}, bell_of(b)); });
    for (int r = 0; r < size(); ++r) post(r);
  }
  void open(comm::ContextId context) {
    std::vector<Rank> members;
    for (int r = 0; r < size(); ++r) members.push_back({r});
    for (auto& desk : desks_) REQUIRE(desk->core.open(context, members).is_ok());
  }

  int size() const { return static_cast<int>(desks_.size()); }
  comm::MailCore& core(int rank) { return desks_[index(rank)]->core; }
  comm::MailWays& ways(int rank) { return desks_[index(rank)]->ways; }
  comm::BellWords& bell(int rank) { return desks_[index(rank)]->bell; }
  std::deque<Frame>& pipe(int from, int to) { return pipes_[pipe_index(from, to)].frames; }

  // Whatever the rank has for links goes into its pipes; where there is no link, it is lost.
  void post(int rank) {
    desks_[index(rank)]->ways.ring_bells();
    comm::MailOutgoing outgoing;
    desks_[index(rank)]->ways.take_outgoing(outgoing);
    for (auto& [to, frame] : outgoing) {
      Pipe& pipe = pipes_[pipe_index(rank, to.value)];
      if (pipe.up) pipe.frames.push_back(std::move(frame));
    }
  }
  // The first frame of the pipe arrives; whether there was one.
  bool deliver(int from, int to) {
    std::deque<Frame>& frames = pipe(from, to);
    if (frames.empty()) return false;
    const Frame frame = std::move(frames.front());
    frames.pop_front();
    if (on_frame) on_frame(from, to, frame);
    desks_[index(to)]->ways.hear({from}, frame);
    post(to);
    return true;
  }
  bool progress(int rank) {
    const bool moved = desks_[index(rank)]->ways.progress();
    post(rank);
    return moved;
  }
  // The link breaks: what is under way is lost, and what either end sends until it has relinked.
  void cut(int a, int b) {
    for (Pipe* pipe : {&pipes_[pipe_index(a, b)], &pipes_[pipe_index(b, a)]}) {
      pipe->frames.clear();
      pipe->up = false;
    }
  }
  // This end has the new connection.
  void relink(int rank, int other) {
    pipes_[pipe_index(rank, other)].up = true;
    desks_[index(rank)]->ways.relink({other}, bell_of(other));
    post(rank);
  }
  bool is_up(int from, int to) const { return pipes_[pipe_index(from, to)].up; }
  // Everything arrives that can; false: it never ends.
  bool settle() {
    constexpr int kMostRounds = 200'000;
    for (int round = 0; round < kMostRounds; ++round) {
      bool moved = false;
      for (int r = 0; r < size(); ++r) moved = progress(r) || moved;
      each_pair([&](int a, int b) { moved = deliver(a, b) || moved; });
      if (!moved) return true;
    }
    return false;
  }

  // Makes what has a request: it lives as long as the mailboxes, which end what still waits.
  template <class Made>
  std::shared_ptr<Made> make() {
    auto made = std::make_shared<Made>();
    requests_.push_back(made);
    return made;
  }

  MailHostMemory host;
  // Before a rank hears a frame.
  std::function<void(int from, int to, const Frame& frame)> on_frame;

 private:
  struct Pipe {
    std::deque<Frame> frames;
    bool up = true;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  std::size_t pipe_index(int from, int to) const { return index(from) * desks_.size() + index(to); }
  std::optional<comm::Bell> bell_of(int rank) {
    if (!one_host_) return std::nullopt;
    return comm::Bell(&desks_[index(rank)]->bell);
  }
  template <class Step>
  void each_pair(const Step& step) {
    for (int a = 0; a < size(); ++a) {
      for (int b = 0; b < size(); ++b) {
        if (a != b) step(a, b);
      }
    }
  }

  bool one_host_;
  std::vector<std::shared_ptr<void>> requests_;  // owners: this, and tests
  std::vector<std::unique_ptr<MailDesk>> desks_;
  std::vector<Pipe> pipes_;
};

// A payload that lies anywhere, read in parts.
class BytesSource final : public comm::MailSource {
 public:
  explicit BytesSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) override {
    REQUIRE(offset + to.size() <= bytes_.size());
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

 private:
  std::vector<std::byte> bytes_;
};

// A room that takes what rises without gaps.
class BytesSink final : public comm::MailSink {
 public:
  explicit BytesSink(std::uint64_t capacity) : capacity_(capacity) {}
  std::uint64_t capacity() const override { return capacity_; }
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    REQUIRE(offset == taken.size());
    REQUIRE(offset + from.size() <= capacity_);
    taken.insert(taken.end(), from.begin(), from.end());
  }
  std::vector<std::byte> taken;

 private:
  std::uint64_t capacity_;
};

// Bytes that say where they belong.
inline std::vector<std::byte> pattern_bytes(std::uint64_t seed, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((seed * 31 + i * 7 + i / 251) & 0xff);
  }
  return bytes;
}

}  // namespace holdfast::testing
