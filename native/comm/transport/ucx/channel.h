// UCX channel: a link's endpoint in UCX, with the buffers that UCX reads from and writes to. It
// outlives its link until UCX has released the buffers.
//
// Thread: only the holder of the runtime.
#pragma once

#ifdef HOLDFAST_UCX

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport/frame_order.h"
#include "comm/transport/ucx/api.h"

namespace holdfast::comm {

// The header of each active message: the receiver's token for the link, the frame's number and the
// frame's header. Only the peer was told the token, so frames of strangers and of earlier links
// match no link.
struct UcxHeader {
  std::uint64_t token;
  std::uint64_t number;
  std::array<std::byte, kFrameHeaderBytes> frame;
};
inline constexpr std::size_t kUcxHeaderBytes = 16 + kFrameHeaderBytes;
static_assert(sizeof(UcxHeader) == kUcxHeaderBytes);
inline constexpr unsigned kUcxMessage = 0;  // id of our active messages

// The link of a channel, as UCX's callbacks see it.
class UcxListener {
 public:
  virtual ~UcxListener() = default;
  virtual Session& heard_session() = 0;
  virtual void on_sent(const OutFrame& frame) = 0;
  virtual void on_received(std::size_t bytes) = 0;
  virtual void on_broken(Status why) = 0;
};

class UcxChannel {
 public:
  // `api`, `worker` and `in_flight` (sends of all channels) outlive the channel.
  UcxChannel(const UcxApi& api, ucp_worker_h worker, std::size_t& in_flight, UcxListener* listener)
      : api_(api), worker_(worker), in_flight_(in_flight), listener_(listener) {}
  UcxChannel(const UcxChannel&) = delete;
  UcxChannel& operator=(const UcxChannel&) = delete;

  Status connect(std::span<const std::byte> address, std::uint64_t peer_token);
  bool may_send() const;
  void send(OutFrame frame);
  // Forgets the post of a frame under way: it is its owner's again.
  void release(const SendPost& post);
  ucs_status_t receive(const UcxHeader& header, void* data, std::size_t length, bool is_here);

  // abandon(): the link has gone. has_ended(): UCX holds nothing of the channel any more; to be
  // polled after abandon().
  void abandon();
  bool has_ended();

 private:
  struct UcxSlot {
    UcxChannel* channel = nullptr;
    UcxHeader header;
    OutFrame frame;  // its payload lies in `memory`
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
    bool taken = false;
  };
  struct Pull {
    UcxChannel* channel = nullptr;
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kSlots = 8;     // frames that UCX may hold, 512 KiB each
  static constexpr std::size_t kPulls = 16;    // more than a sender has slots
  static constexpr std::uint64_t kAhead = 64;  // frames sent after the oldest one under way

  UcxSlot* free_slot();
  void fill(UcxSlot& slot, OutFrame frame);
  void ended(UcxSlot& slot, ucs_status_t status);
  ucs_status_t pull(std::uint64_t number, const FrameHeader& header, void* description);
  void pulled(Pull* pull, ucs_status_t status);
  void broken(Status why);
  void broken_by(const char* what, ucs_status_t status);
  static void on_send_end(void* request, ucs_status_t status, void* slot);
  static void on_pull_end(void* request, ucs_status_t status, std::size_t length, void* pull);
  static void on_error(void* channel, ucp_ep_h endpoint, ucs_status_t status);

  const UcxApi& api_;
  ucp_worker_h worker_;
  std::size_t& in_flight_;
  UcxListener* listener_;  // null: the link has gone
  ucp_ep_h endpoint_ = nullptr;
  void* closing_ = nullptr;  // UCX's request
  std::uint64_t peer_token_ = 0;
  std::uint64_t next_number_ = 0;
  std::array<UcxSlot, kSlots> slots_;
  std::size_t pulls_ = 0;
  FrameOrder order_;
};

}  // namespace holdfast::comm

#endif
