// Contact: what a process knows of a peer by their connection alone.
#pragma once

#include "base/types.h"

namespace holdfast::ft {

struct Contact {
  enum class ContactState : std::uint8_t {
    kUnknown,  // there was no connection, or it was long ago
    kHeard,
    kSilent,  // nothing came for longer than the detector allows
    kCut,     // the connection broke; the process may live
    kGone,    // the process has ended
    kLeft,    // it said goodbye
  };
  ContactState state = ContactState::kUnknown;
  Instant heard{};  // kHeard, kSilent: the last time
};

}  // namespace holdfast::ft
