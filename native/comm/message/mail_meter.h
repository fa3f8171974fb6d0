// Mail meter: counts the messages of a mailbox with one other rank. Its reader owns it; the mailbox
// only adds, under its lock.
#pragma once

#include "base/metrics/instruments.h"

namespace holdfast::comm {

struct MailMeter {
  struct MailTraffic {
    metrics::Counter messages;
    metrics::Counter bytes;  // of payload
    void add(std::uint64_t payload_bytes) {
      messages.add(1);
      bytes.add(payload_bytes);
    }
  };
  MailTraffic sent;      // once they, or their announcements, have left
  MailTraffic received;  // once they, or their announcements, are here
};

}  // namespace holdfast::comm
