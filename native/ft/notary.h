// Notary: what tells a decided view from a claimed one. Who holds the job's secret signs the views
// that it decides; who is told of a view by somebody else checks whether that was done. A statement
// is two parts: a digest of all that comes with the view (cards, outcasts, the reports that it was
// decided on), and a signature of the name, the world, the epoch, the members and that digest. So
// nothing can be swapped, and the members alone can be shown to one who is none of them any more.
// Why: docs/decisions/0164-a-view-is-signed-by-who-decides-it.md
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ft/message.h"

namespace holdfast::ft {

// Implemented where keys are (runtime/coordinator/issuer.h), and by the simulator.
class Notary {
 public:
  virtual ~Notary() = default;
  // kDigestBytes; no two texts have the same.
  virtual Bytes digest(std::span<const std::byte> text) = 0;
  // Empty: it cannot. Otherwise at most kMaxStatementBytes - kDigestBytes.
  virtual Bytes sign(std::span<const std::byte> text) = 0;
  virtual bool check(std::span<const std::byte> text, std::span<const std::byte> signature) = 0;
};
inline constexpr std::size_t kDigestBytes = 32;

// The statement for the view that `whole` tells of, in the world of that name; empty: nobody signs.
Bytes statement_for(Notary* notary, const std::string& name, const Message& whole);
// Whether the statement of `whole` is for the view that it tells of. Without a notary nobody can
// know, and all is believed.
bool is_attested(Notary* notary, const std::string& name, const Message& whole);

// The view's epoch and members, as who was voted out is shown them.
WorldView members_of(const WorldView& view);
// Whether the statement is for the members that the message shows. Without a notary it is not.
bool shows_members(Notary* notary, const std::string& name, const Message& message);

}  // namespace holdfast::ft
