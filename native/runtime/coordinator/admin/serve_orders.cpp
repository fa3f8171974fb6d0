// How a coordinator's runtime carries out what operators ask by its pages.
#include "runtime/coordinator/admin/administration.h"
#include "runtime/rendezvous/secret_file.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

const char* event_of(health::Page page) {
  switch (page) {
    case health::Page::kKick: return "admin kick";
    case health::Page::kRevoke: return "admin revoke";
    case health::Page::kDrain: return "admin drain";
    case health::Page::kPause: return "admin pause";
    default: return "admin resume";
  }
}

}  // namespace

void Runtime::serve_orders(Instant now) {
  Administration::Ways ways;
  ways.facts_of = [this](MemberId member, const std::string& card) {
    MemberFacts facts;
    if (const auto parsed = parse_card(card); parsed.is_ok()) facts.host = parsed.value().host;
    if (const Peer* peer = find_peer(member)) facts.address = peer->address;
    const auto entrant = parts_.gatekeeper ? parts_.gatekeeper->entrant(member) : std::nullopt;
    if (entrant) facts.token = serial_text(entrant->token);
    return facts;
  };
  ways.revoke = [this](const secure::Serial& token) { return revoke_for_good(token); };
  ways.run_of = [this](const secure::Serial& token) {
    return parts_.gatekeeper ? parts_.gatekeeper->run_of(token) : std::string();
  };
  ways.note = [this](const health::PageOrder& order, const std::string& what) {
    const health::PageCaller& caller = order.caller;
    say(std::string(event_of(order.page)) + " by " + caller.name + ": " + what);
    if (!parts_.audit) return;
    const std::string user = caller.token.empty() ? caller.name : "";
    parts_.audit->write(event_of(order.page), order.address,
                        {caller.token, caller.run, "", "", "", user}, what);
  };
  Administration administration(*parts_.service, std::move(ways));
  for (OrderDesk::DeskOrder& asked : parts_.desk->take()) {
    asked.answer->give(administration.carry_out(asked.order, now));
  }
}

Status Runtime::revoke_for_good(const secure::Serial& token) {
  if (!parts_.gatekeeper) {
    return {Code::kConfigError,
            "this coordinator has no secret, and so knows no tokens (--secret-file)"};
  }
  parts_.gatekeeper->revoke_for_good(token);
  tell_unwelcome();
  return append_revoked(parts_.options.secret_file, token);
}

}  // namespace holdfast::runtime
