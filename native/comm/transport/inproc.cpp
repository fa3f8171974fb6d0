#include "comm/transport/inproc.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

namespace holdfast::comm {
namespace {

// Frames in flight in one direction: enough to stream, few enough that back-pressure is tested.
constexpr std::size_t kMaxQueuedFrames = 8;
constexpr std::uint64_t kPayloadBytes = 64 * 1024;

struct QueuedFrame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

struct Queue {
  std::mutex mutex;  // guards frames, closed
  std::deque<QueuedFrame> frames;
  bool closed = false;
  // Whether there is either, so that an idle link needs no lock; set and read under the mutex but
  // for a first look (acquire, release).
  std::atomic<bool> has_news{false};
};

class InprocLink final : public Link {
 public:
  // Owners: both ends share the two queues.
  InprocLink(std::shared_ptr<Queue> in, std::shared_ptr<Queue> out)
      : in_(std::move(in)), out_(std::move(out)) {}
  ~InprocLink() override {
    const std::lock_guard lock(out_->mutex);
    out_->closed = true;
    out_->has_news.store(true, std::memory_order_release);
  }

  std::string_view transport() const override { return "inproc"; }
  std::uint64_t received() const override { return received_; }

  bool pump() override {
    if (!status().is_ok()) return false;
    const bool out = push();
    return pull() || out;
  }

 protected:
  void release(const SendPost&) override {}

 private:
  bool push() {
    bool moved = false;
    OutFrame frame;
    while (session().wants_to_send() && has_room() && session().next_frame(kPayloadBytes, frame)) {
      QueuedFrame copy{frame.header, {frame.payload.begin(), frame.payload.end()}};
      {
        const std::lock_guard lock(out_->mutex);
        out_->frames.push_back(std::move(copy));
        out_->has_news.store(true, std::memory_order_release);
      }
      session().sent(frame);
      frame = {};
      moved = true;
    }
    return moved;
  }

  bool has_room() {
    const std::lock_guard lock(out_->mutex);
    return out_->frames.size() < kMaxQueuedFrames;
  }

  bool pull() {
    bool moved = false;
    QueuedFrame frame;
    while (pop(frame)) {
      moved = true;
      received_ += kFrameHeaderBytes + frame.payload.size();
      Status status = session().begin_frame(frame.header);
      std::span<const std::byte> rest = frame.payload;
      while (status.is_ok() && !rest.empty()) rest = rest.subspan(session().payload(rest));
      if (status.is_ok()) continue;
      fail(std::move(status));
      return true;
    }
    return moved;
  }

  bool pop(QueuedFrame& frame) {
    if (!in_->has_news.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(in_->mutex);
    if (in_->frames.empty()) {
      if (in_->closed) fail({Code::kPeerLost, "the peer closed its end"});
      return false;
    }
    frame = std::move(in_->frames.front());
    in_->frames.pop_front();
    if (in_->frames.empty() && !in_->closed) in_->has_news.store(false, std::memory_order_release);
    return true;
  }

  std::shared_ptr<Queue> in_;
  std::shared_ptr<Queue> out_;
  std::uint64_t received_ = 0;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_inproc_pair() {
  auto a = std::make_shared<Queue>();
  auto b = std::make_shared<Queue>();
  return {std::make_unique<InprocLink>(a, b), std::make_unique<InprocLink>(b, a)};
}

}  // namespace holdfast::comm
