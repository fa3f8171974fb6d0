// Mail lane: carries mail frames to one peer, in order and without loss.
#pragma once

#include "comm/message/mail_frame.h"

namespace holdfast::comm {

class MailLane {
 public:
  virtual ~MailLane() = default;
  // Memory for the payload of the next frame, to be filled before commit(); null: no room now.
  // `header.payload_bytes` is at most most_payload().
  virtual std::byte* begin(const MailHeader& header) = 0;
  virtual void commit() = 0;
  virtual std::uint32_t most_payload() const = 0;
  // Of the frames that carry a large message.
  virtual std::uint32_t part_payload() const = 0;
};

}  // namespace holdfast::comm
