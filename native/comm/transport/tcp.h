// TCP pipe: one connected, non-blocking socket. Copies: the kernel's two; a payload that is only
// copied is read straight to its place, one that is reduced passes through a slice buffer that
// stays in L2.
// Why: docs/decisions/0063-one-socket-per-link.md
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "comm/transport/stream_link.h"

namespace holdfast::comm {

class TcpLink final : public StreamLink {
 public:
  explicit TcpLink(Connection connection);
  // Of a connection that goes as it is; takes ownership of `fd`.
  explicit TcpLink(int fd) : TcpLink(Connection{fd}) {}
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  std::string_view transport() const override { return "tcp"; }
  bool pump() override;

  int fd() const override { return fd_; }
  void sever(Status why) override;
  void renew(Connection connection) override;
  void hang_up() override;
  void set_readable() override { readable_ = true; }
  bool awaits() const override { return in_payload_ || session().awaits(); }
  bool wants_to_write() override { return blocked_ && status().is_ok(); }
  void set_writable() override { blocked_ = false; }
  // Whether the other end closed the connection, or something between did.
  bool closed_by_peer() const override { return closed_by_peer_; }
  std::uint64_t received() const override { return received_; }
  // Asks the kernel, which measures the path all the time.
  void look_at_path() override;

 protected:
  void release(const SendPost& post) override;

 private:
  bool push();
  bool take_frames();
  bool write_frames();
  void count_written(std::size_t bytes);
  bool pull();
  bool parse();
  bool fill();
  void grow(std::uint64_t wanted);
  bool fill_directly(std::span<std::byte> place);
  bool flush_seal();
  std::span<std::byte> whole_elements(std::span<std::byte> place) const;
  // Of each frame, and of tcp.cpp alone: calls in a shared library are not inlined otherwise.
  inline std::size_t make_room(std::uint64_t wanted);
  inline ssize_t send(std::span<iovec> parts);
  inline ssize_t receive(std::span<std::byte> to);
  inline ssize_t receive(std::span<iovec> parts);
  inline bool on_read(ssize_t count, std::size_t asked);
  void lost(const char* call);

  int fd_;  // negative: severed
  std::unique_ptr<Seal> seal_;
  bool readable_ = true;
  bool blocked_ = false;
  int write_error_ = 0;  // errno of a send that failed
  bool closed_by_peer_ = false;
  std::uint64_t received_ = 0;
  std::uint32_t retransmits_ = 0;  // already added to the meter

  // Most frames that go out in one call.
  static constexpr std::size_t kMostTogether = 8;
  struct Outgoing {
    OutFrame frame;
    std::array<std::byte, kFrameHeaderBytes> header{};
    std::size_t size() const { return kFrameHeaderBytes + frame.payload.size(); }
  };
  std::array<Outgoing, kMostTogether> out_;
  std::size_t taken_ = 0;    // frames in out_
  std::size_t writing_ = 0;  // the first frame that has not gone; taken_: none
  std::size_t written_ = 0;  // bytes of that frame's header and payload

  // Bytes read and not yet consumed: [begin_, end_).
  std::vector<std::byte> in_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_payload_ = false;
};

}  // namespace holdfast::comm
