// TCP pipe: one connected, non-blocking socket. Copies: the kernel's two; a payload that is only
// copied is read straight to its place, one that is reduced passes through a slice buffer that
// stays in L2.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "comm/transport/link.h"

namespace holdfast::comm {

class TcpLink final : public Link {
 public:
  explicit TcpLink(int fd);  // takes the descriptor, connected and greeted
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  std::string_view transport() const override { return "tcp"; }
  bool pump() override;

  int fd() const { return fd_; }
  // The poller saw the socket readable or broken.
  void set_readable() { readable_ = true; }
  bool wants_to_write() { return blocked_ && status().is_ok(); }
  void set_writable() { blocked_ = false; }
  // The kernel of the peer's host said that the other end is closed. Any other failure proves
  // nothing.
  bool closed_by_peer() const override { return closed_by_peer_; }
  std::uint64_t received() const override { return received_; }
  // Asks the kernel for round-trip time and retransmits, and writes them to the meter.
  void look_at_kernel();

 protected:
  void release(const SendPost& post) override;

 private:
  bool push();
  bool write_frame();
  bool pull();
  bool parse();
  bool fill();
  std::span<std::byte> whole_elements(std::span<std::byte> place) const;
  bool on_read(ssize_t count, std::size_t asked);
  void lost(const char* call);

  int fd_;
  bool readable_ = true;
  bool blocked_ = false;
  int write_error_ = 0;  // errno of a send that failed
  bool closed_by_peer_ = false;
  std::uint64_t received_ = 0;
  std::uint32_t retransmits_ = 0;  // that the meter knows of

  // The frame being written, and how much of header + payload has gone.
  OutFrame out_;
  bool writing_ = false;
  std::array<std::byte, kFrameHeaderBytes> out_header_{};
  std::size_t written_ = 0;

  // Bytes read and not yet consumed: [begin_, end_).
  std::vector<std::byte> in_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_payload_ = false;
};

}  // namespace holdfast::comm
