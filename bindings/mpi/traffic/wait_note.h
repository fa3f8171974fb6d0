// Wait note: tells whoever looks at this process (the flight record, the metrics, `holdfast
// doctor`) of a wait for messages that has become long: which call it is, and for whom it waits. A
// short one leaves no trace, and costs nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/types.h"

namespace holdfast::comm {
struct LongWait;
}

namespace holdfast::mpi {

struct Comm;
struct Request;
struct Route;

class WaitNote {
 public:
  // `caller`: the call of the program, a text that lives as long as the process.
  explicit WaitNote(const char* caller) : caller_(caller) {}
  ~WaitNote() {
    if (told_) end();
  }
  WaitNote(const WaitNote&) = delete;
  WaitNote& operator=(const WaitNote&) = delete;

  // The caller has waited for a while, in vain, for any of these; null entries are skipped.
  void look(std::span<Request* const> requests);
  void look(const Request& request);
  // For a message of this pattern.
  void look(const Route& route);

 private:
  bool is_due();
  void tell(bool sends, std::vector<Rank> peers);
  void end();

  const char* const caller_;
  Instant first_{};  // when it was first looked at
  Instant told_at_{};
  std::shared_ptr<comm::LongWait> told_;
};

}  // namespace holdfast::mpi
