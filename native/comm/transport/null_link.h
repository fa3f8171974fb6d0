// Null link: the link to a member that is in the view but was gone before it could be reached. It
// moves nothing; the next view is without the member.
#pragma once

#include "comm/transport/link.h"

namespace holdfast::comm {

class NullLink final : public Link {
 public:
  std::string_view transport() const override { return "none"; }
  bool pump() override { return false; }

 protected:
  void release(const SendPost&) override {}
};

}  // namespace holdfast::comm
