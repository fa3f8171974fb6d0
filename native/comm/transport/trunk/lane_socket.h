// Lane socket: a connection of a trunk as a TCP socket, and the epoll descriptor that watches them.
//
// Thread: only the holder of the runtime.
#pragma once

#include <memory>
#include <string>

#include "comm/transport/stream_link.h"
#include "comm/transport/trunk/lane_stream.h"

namespace holdfast::comm {

class LaneSocket final : public LaneStream {
 public:
  explicit LaneSocket(Connection connection);
  ~LaneSocket() override;
  LaneSocket(const LaneSocket&) = delete;
  LaneSocket& operator=(const LaneSocket&) = delete;

  int fd() const { return connection_.fd; }
  ssize_t send(std::span<const iovec> parts) override;
  ssize_t receive(std::span<const iovec> parts) override;
  bool receives_in_parts() const override { return connection_.seal != nullptr; }
  bool holds() const override { return connection_.seal && connection_.seal->holds(); }
  bool flush() override { return !connection_.seal || connection_.seal->flush(fd()); }
  void hang_up() override;
  bool look(TcpPath& path) const override;
  bool set_control(LaneControl control) override;
  void set_pace(std::uint64_t bytes_per_s) override;
  std::string_view control_name() const override {
    return control_ == LaneControl::kBbr ? "bbr" : std::string_view(system_control_);
  }
  bool is_relayed() const override { return connection_.relayed; }

 private:
  Connection connection_;
  LaneControl control_ = LaneControl::kSystem;
  std::string system_control_;  // the name of the system's
};

class LaneEpoll final : public LaneWatch {
 public:
  LaneEpoll();
  ~LaneEpoll() override;
  LaneEpoll(const LaneEpoll&) = delete;
  LaneEpoll& operator=(const LaneEpoll&) = delete;

  int fd() const override { return epoll_; }
  // All streams are sockets.
  void add(LaneId lane, const LaneStream& stream) override;
  void remove(LaneId lane, const LaneStream& stream) override;
  void poll(std::vector<LaneNews>& news) override;

 private:
  int epoll_;
};

}  // namespace holdfast::comm
