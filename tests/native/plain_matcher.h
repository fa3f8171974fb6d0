// The matching of messages as the MPI standard says it: two lists, which are walked. It shares no
// code with the matcher.
#pragma once

#include <list>

#include "comm/message/mail_request.h"

namespace holdfast::testing {

struct PlainMatcher {
  struct Receive {
    int id;
    comm::MailPattern pattern;
  };
  struct Message {
    int id;
    comm::ContextId context;
    Rank source;
    std::int32_t tag;
  };
  std::list<Receive> receives;
  std::list<Message> messages;

  // The message that the receive takes at once; -1: it waits.
  int post(const Receive& receive) {
    const int message = probe(receive.pattern, true);
    if (message < 0) receives.push_back(receive);
    return message;
  }
  // The receive that takes the message; -1: the message waits.
  int arrive(const Message& message) {
    for (auto r = receives.begin(); r != receives.end(); ++r) {
      if (!takes(r->pattern, message)) continue;
      const int id = r->id;
      receives.erase(r);
      return id;
    }
    messages.push_back(message);
    return -1;
  }
  // The message that such a receive would take; -1: there is none.
  int probe(const comm::MailPattern& pattern, bool take) {
    for (auto m = messages.begin(); m != messages.end(); ++m) {
      if (!takes(pattern, *m)) continue;
      const int id = m->id;
      if (take) messages.erase(m);
      return id;
    }
    return -1;
  }
  void cancel(int id) {
    receives.remove_if([&](const Receive& r) { return r.id == id; });
  }
  void withdraw(int id) {
    messages.remove_if([&](const Message& m) { return m.id == id; });
  }

 private:
  static bool takes(const comm::MailPattern& pattern, const Message& message) {
    return pattern.context == message.context &&
           (pattern.source == comm::kAnyMailSource || pattern.source == message.source) &&
           (pattern.tag == comm::kAnyTag || pattern.tag == message.tag);
  }
};

}  // namespace holdfast::testing
