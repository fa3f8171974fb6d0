// Matcher: which message goes to which receive, as MPI means it: a message goes to the receive that
// was posted first among those that take it, and a receive takes the message that came first. A
// pure data structure: it moves no bytes, and nothing in it depends on addresses or hashes.
//
// All steps take constant time, however many receives and messages wait. Receives lie in queues by
// what they name (context, source, tag, of which the last two may be open), and a message looks at
// the heads of the four queues that could take it. Messages that wait lie in a queue by context,
// source and tag; from the first pattern with something open on, also in one for each of the three
// kinds of such patterns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "comm/message/mail_request.h"
#include "comm/transport/key_table.h"

namespace holdfast::comm {

// A message that no receive has taken yet.
struct MailArrival {
  ContextId context;
  MailEnvelope envelope;
  std::uint64_t order = 0;  // of arrival
  // By kind of pattern, and among all.
  std::array<MailLinks<MailArrival>, 5> lists;
};

class Matcher {
 public:
  // Posts a receive by its pattern. The message that it takes at once leaves the matcher; null: the
  // receive waits.
  MailArrival* post(MailRequest& receive);
  // The receive that takes such a message leaves the matcher; null: none does.
  MailRequest* match(ContextId context, Rank source, std::int32_t tag);
  // Keeps a message for which match() had nothing.
  void keep(MailArrival& arrival);

  // The message that a receive of this pattern would take; it stays.
  MailArrival* find(const MailPattern& pattern);
  // Takes out a message that is kept.
  void remove(MailArrival& arrival);
  // Takes out a receive that is posted.
  void cancel(MailRequest& receive);

  // All in their order; the next one is at lists[kAllPosted] or lists[kAllKept].
  static constexpr std::size_t kAllPosted = 1;
  static constexpr std::size_t kAllKept = 4;
  MailRequest* first_posted() const { return posted_.first; }
  MailArrival* first_kept() const { return kept_.first; }
  std::size_t posted_count() const { return posted_count_; }
  std::size_t kept_count() const { return kept_count_; }

 private:
  static constexpr std::size_t kKinds = 4;
  static constexpr std::size_t kExact = 0;

  template <class Node>
  using MailQueues = KeyTable<MailList<Node>>;

  void index(MailArrival& arrival, std::size_t kind);
  void unindex(MailArrival& arrival, std::size_t kind);
  void index_all();

  std::array<MailQueues<MailRequest>, kKinds> receives_;
  std::array<MailQueues<MailArrival>, kKinds> arrivals_;
  MailList<MailRequest> posted_;
  MailList<MailArrival> kept_;
  std::size_t posted_count_ = 0;
  std::size_t kept_count_ = 0;
  std::uint64_t next_order_ = 0;
  bool has_open_patterns_ = false;  // messages are in all four kinds of queues
};

}  // namespace holdfast::comm
