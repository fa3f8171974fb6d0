#include "comm/message/mail_trunk.h"

#include <string>
#include <utility>

namespace holdfast::comm {
namespace {

// In front of each frame.
struct TrunkHeader {
  std::uint64_t number;  // 0: none, the frame only tells what was heard
  std::uint64_t heard;
};
constexpr std::size_t kTrunkFront = sizeof(TrunkHeader) + kMailHeaderBytes;
// The other end is told after so many bytes: several times in its limit. A frame counts as more
// than its bytes, as it costs more.
constexpr std::size_t kTellBytes = kTrunkBytes / 8;
constexpr std::size_t kFrameCost = 256;

std::size_t cost_of(std::size_t frame_bytes) { return frame_bytes + kFrameCost; }

}  // namespace

std::byte* MailTrunk::begin(const MailHeader& header) {
  const std::size_t bytes = kTrunkFront + header.payload_bytes;
  if (!kept_.empty() && kept_bytes_ + cost_of(bytes) > kTrunkBytes) return nullptr;
  building_.assign(bytes, std::byte{});
  encode_mail_header(header, building_.data() + sizeof(TrunkHeader));
  return building_.data() + kTrunkFront;
}

void MailTrunk::commit() {
  kept_bytes_ += cost_of(building_.size());
  kept_.push_back(std::exchange(building_, {}));
  stirred_ = true;
}

MailTrunk::TrunkFrame MailTrunk::take_outgoing() {
  TrunkHeader front{0, heard_};
  TrunkFrame frame;
  if (next_out_ < kept_.size()) {
    frame = kept_[next_out_];
    front.number = first_kept_ + next_out_++;
  } else {
    frame.resize(sizeof front);
  }
  std::memcpy(frame.data(), &front, sizeof front);
  tells_ = false;
  heard_bytes_ = 0;
  return frame;
}

Result<MailTrunk::Heard> MailTrunk::hear(std::span<const std::byte> frame) {
  const auto front = take_part<TrunkHeader>(frame);
  if (!front) return Status{Code::kProtocolError, "broken peer: a mail frame without a number"};
  if (front->heard >= first_kept_ + kept_.size()) {
    return Status{Code::kProtocolError, "broken peer: it heard mail that was not sent"};
  }
  forget_heard(front->heard);
  if (front->number == 0 || front->number <= heard_) return Heard{};
  if (front->number != heard_ + 1 || frame.size() < kMailHeaderBytes) {
    return Status{Code::kProtocolError, "broken peer: mail frame " + std::to_string(front->number) +
                                            " of " + std::to_string(frame.size()) +
                                            " bytes after " + std::to_string(heard_)};
  }
  auto header = parse_mail_header(frame.first<kMailHeaderBytes>());
  if (!header.is_ok()) return header.status();
  frame = frame.subspan(kMailHeaderBytes);
  if (header.value().payload_bytes != frame.size()) {
    return Status{Code::kProtocolError, "broken peer: a mail frame of another length"};
  }
  ++heard_;
  heard_bytes_ += cost_of(frame.size());
  if (heard_bytes_ >= kTellBytes) tell();
  return Heard{header.value(), frame, true};
}

void MailTrunk::forget_heard(std::uint64_t until) {
  while (first_kept_ <= until && !kept_.empty()) {
    kept_bytes_ -= cost_of(kept_.front().size());
    kept_.pop_front();
    ++first_kept_;
    if (next_out_ > 0) --next_out_;
  }
}

}  // namespace holdfast::comm
