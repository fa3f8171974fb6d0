// Contact: what a process knows of a peer from their connection alone.
#pragma once

#include "base/types.h"

namespace holdfast::ft {

struct Contact {
  enum class ContactState : std::uint8_t {
    kUnknown,  // no connection yet, or long ago
    kHeard,
    kSilent,  // nothing came for longer than the detector allows
    kCut,     // the connection broke; the process may live
    kGone,    // the process has ended
    kLeft,    // it said goodbye
  };
  ContactState state = ContactState::kUnknown;
  Instant heard{};  // kHeard, kSilent: when the peer was heard last
};

}  // namespace holdfast::ft
