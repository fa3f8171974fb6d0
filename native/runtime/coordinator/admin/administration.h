// Administration: carries out what operators ask of a coordinator by its pages, and says what came
// of it, in JSON. What it needs of its process it is given: it knows no socket and no clock.
// Why: docs/decisions/0163-an-operator-acts-through-pages.md
#pragma once

#include <functional>
#include <string>

#include "ft/coordinator_service.h"
#include "health/pages.h"
#include "secure/token.h"

namespace holdfast::runtime {

// What is known of a member beside its view.
struct MemberFacts {
  std::string host;
  std::string address;
  std::string token;  // its serial; empty: none
};

class Administration {
 public:
  struct Ways {
    std::function<MemberFacts(MemberId member, const std::string& card)> facts_of;
    // Shows out who came in by the token, for good. Not ok: it counts here, and the next life of
    // this coordinator will not know.
    std::function<Status(const secure::Serial& token)> revoke;
    // The run of a token that somebody has come in by; empty: nobody has.
    std::function<std::string(const secure::Serial& token)> run_of;
    // To the audit log.
    std::function<void(const health::PageOrder& order, const std::string& what)> note;
  };

  // `service` outlives this.
  Administration(ft::CoordinatorService& service, Ways ways)
      : service_(service), ways_(std::move(ways)) {}

  health::HttpResponse carry_out(const health::PageOrder& order, Instant now);

 private:
  health::HttpResponse act(const health::PageOrder& order, Instant now);
  health::HttpResponse jobs(const health::PageCaller& caller, Instant now) const;
  health::HttpResponse members(const health::PageOrder& order);
  health::HttpResponse revoke(const health::PageOrder& order);
  std::string unknown_job(const health::PageCaller& caller, const std::string& job) const;

  ft::CoordinatorService& service_;
  const Ways ways_;
};

}  // namespace holdfast::runtime
