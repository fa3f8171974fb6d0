// Stranger: what a process may say that has no part in a world, but knows all there is to know of
// it: the names, the members' ids, the newest view. It speaks as itself, for that is what a
// connection proves.
#pragma once

#include <string>
#include <vector>

#include "ft/message.h"
#include "sim/random.h"

namespace holdfast::sim {

struct KnownWorld {
  CommId id;
  std::string name;
  ft::WorldView view;
  std::vector<ft::Message> shown = {};  // the signed views that there are; none: nothing is signed
};

// Some forged messages, of any kinds, about this world, and, where views are signed, about an older
// one of its name, which would be believed elsewhere. None of them is the answer that would let a
// process in which waits in the lobby: who is admitted is no stranger.
std::vector<ft::Message> forge(const KnownWorld& world, MemberId self, Random& random);

}  // namespace holdfast::sim
