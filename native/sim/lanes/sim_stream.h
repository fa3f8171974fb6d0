// Simulated streams: the lanes of simulated trunks. A connection has a pipe each way; it ends for
// each of its sides at a time of its own, or one of them never hears of it.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "comm/transport/trunk/lane_stream.h"
#include "sim/lanes/byte_pipe.h"

namespace holdfast::sim {

// What streams need of the world around them.
class StreamKeeper {
 public:
  virtual ~StreamKeeper() = default;
  virtual Instant now() const = 0;
  virtual const Outages& outages() const = 0;
  virtual Random& random() = 0;
  // Has the end look at its lanes at that time.
  virtual void wake(int end, Instant at) = 0;
  virtual void on_closed(int end, int connection) = 0;
};

// Owners: both of its streams, and the world.
class SimConnection {
 public:
  SimConnection(StreamKeeper& keeper, const PathTerms& path, bool relayed);
  SimConnection(const SimConnection&) = delete;
  SimConnection& operator=(const SimConnection&) = delete;

  int number() const { return path_.connection; }
  const PathTerms& path() const { return path_; }
  bool is_relayed() const { return relayed_; }
  BytePipe& from(int end) { return pipes_.at(static_cast<std::size_t>(end)); }
  // Something resets it: a part of what is under way arrives, and each side learns of it sometime.
  void cut();
  void replan();

  void open(int end);
  ssize_t send(int end, std::span<const iovec> parts);
  ssize_t receive(int end, std::span<const iovec> parts);
  void close(int end);
  bool is_closed(int end) const { return closed_.at(static_cast<std::size_t>(end)); }
  bool is_over() const { return closed_[0] && closed_[1]; }
  bool is_readable(int end) const;
  // Whether the end had to wait, and need not any more.
  bool is_writable(int end);
  // When the end has to look again.
  Instant next_look(int end) const;
  void look(int end, TcpPath& path);

 private:
  void end_for(int end, Instant at, int why);
  // A round trip from now: what was sent to where nobody is comes back as a reset.
  void answer_reset(int end);

  StreamKeeper& keeper_;
  const PathTerms path_;
  const bool relayed_;
  std::array<BytePipe, 2> pipes_;
  std::array<Instant, 2> opened_{};
  std::array<Instant, 2> ends_{kNever, kNever};  // when a side learns that it has ended
  std::array<int, 2> why_{};                     // errno; 0: the other side has closed it
  std::array<bool, 2> closed_{};
  std::array<bool, 2> waits_{};  // for room
  bool broken_ = false;
};

class SimStream final : public comm::LaneStream {
 public:
  SimStream(std::shared_ptr<SimConnection> connection, int end)
      : connection_(std::move(connection)), end_(end) {
    connection_->open(end);
  }
  ~SimStream() override { connection_->close(end_); }
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  ssize_t send(std::span<const iovec> parts) override { return connection_->send(end_, parts); }
  ssize_t receive(std::span<const iovec> parts) override {
    return connection_->receive(end_, parts);
  }
  void hang_up() override { connection_->cut(); }
  bool look(TcpPath& path) const override { return connection_->look(end_, path), true; }
  bool set_control(comm::LaneControl) override { return true; }
  bool is_relayed() const override { return connection_->is_relayed(); }
  const std::shared_ptr<SimConnection>& connection() const { return connection_; }

 private:
  std::shared_ptr<SimConnection> connection_;
  int end_;
};

// Watches the streams of one end of a trunk.
class SimWatch final : public comm::LaneWatch {
 public:
  explicit SimWatch(int end) : end_(end) {}
  void add(comm::LaneId lane, const comm::LaneStream& stream) override {
    lanes_.emplace_back(lane, static_cast<const SimStream&>(stream).connection());
  }
  void remove(comm::LaneId lane, const comm::LaneStream&) override {
    std::erase_if(lanes_, [&](const auto& entry) { return entry.first == lane; });
  }
  void poll(std::vector<comm::LaneNews>& news) override;

 private:
  int end_;
  std::vector<std::pair<comm::LaneId, std::shared_ptr<SimConnection>>> lanes_;
};

}  // namespace holdfast::sim
