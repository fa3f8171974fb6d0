#include "runtime/coordinator/admin/administration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "health/json.h"

namespace holdfast::runtime {
namespace {

using health::HttpResponse;
using health::JsonWriter;
using health::Page;
using health::PageOrder;

// A pause that somebody forgot ends, and so does a wait for a step boundary that never comes.
constexpr std::chrono::hours kLongestOrderedPause{24 * 7};
constexpr std::chrono::hours kOrderedPause{1};
constexpr std::chrono::hours kLongestDrain{24};
constexpr std::chrono::minutes kDrain{10};
constexpr std::size_t kMostWhy = 200;

constexpr int kNotFound = 404;
constexpr int kConflict = 409;

HttpResponse json_answer(int status, JsonWriter out) {
  out.close('}');
  return {status, "application/json", out.take() + "\n"};
}

HttpResponse refuse_with(int status, const std::string& why) {
  JsonWriter out;
  out.open("", '{');
  out.text("error", why);
  return json_answer(status, std::move(out));
}

double in_seconds_from(Instant now, Instant until) {
  return std::max(0.0, std::chrono::duration<double>(until - now).count());
}

// What an order's fields say; the first that is wrong is an error.
class OrderFields {
 public:
  explicit OrderFields(const JsonValue& fields) : fields_(fields) {}

  std::string text(std::string_view name, bool is_needed) {
    const JsonValue* value = take(name, JsonKind::kText, is_needed);
    return value == nullptr ? std::string() : value->text;
  }
  Rank rank() {
    const JsonValue* value = take("rank", JsonKind::kNumber, true);
    if (value == nullptr) return {};
    const double number = value->number;
    const bool sound = number >= 0 && number < ft::kMaxRanks && number == std::floor(number);
    if (!sound) object("rank", "accepted: a whole number from 0 on");
    return {sound ? static_cast<std::int32_t>(number) : 0};
  }
  Duration seconds(std::string_view name, Duration otherwise, Duration most) {
    const JsonValue* value = take(name, JsonKind::kNumber, false);
    if (value == nullptr) return otherwise;
    const double limit = std::chrono::duration<double>(most).count();
    if (!(value->number > 0 && value->number <= limit)) {
      object(name, "accepted: seconds, above 0 and up to " +
                       std::to_string(static_cast<std::int64_t>(limit)));
      return otherwise;
    }
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value->number));
  }
  // Why it is no order; empty: it is one. Nothing is asked for after this.
  std::string wrong() {
    for (const std::string& name : fields_.names) {
      if (!known_.contains(name)) object(name, "no such field");
    }
    return wrong_;
  }

 private:
  void object(std::string_view name, const std::string& why) {
    if (wrong_.empty()) wrong_ = "\"" + shown_text(name, 32) + "\": " + why;
  }
  const JsonValue* take(std::string_view name, JsonKind kind, bool is_needed) {
    known_.emplace(name);
    const JsonValue* value = fields_.find(name);
    if (value == nullptr && !is_needed) return nullptr;
    if (value == nullptr || !value->is(kind)) {
      object(name, std::string("accepted: ") + kind_text(kind));
      return nullptr;
    }
    return value;
  }

  const JsonValue& fields_;
  std::set<std::string> known_;
  std::string wrong_;
};

// A reason that people read in logs and terminals: one line of printable text.
std::string plain_why(const std::string& why) { return shown_text(why, kMostWhy); }

void write_limit(JsonWriter& out, std::string_view name, std::optional<std::size_t> limit) {
  if (limit) {
    out.number(name, std::uint64_t{*limit});
  } else {
    out.nothing(name);
  }
}

}  // namespace

HttpResponse Administration::carry_out(const PageOrder& order, Instant now) {
  HttpResponse response;
  switch (order.page) {
    case Page::kJobs: return jobs(order.caller, now);
    case Page::kMembers: return members(order);
    case Page::kRevoke: response = revoke(order); break;
    default: response = act(order, now); break;
  }
  return response;
}

// The same where it is another run's.
std::string Administration::unknown_job(const health::PageCaller& caller,
                                        const std::string& job) const {
  constexpr std::size_t kShown = 16;
  std::set<std::string> names;
  service_.each_world([&](const ft::Coordinator& c) {
    if (caller.may_see(c.name()) && names.size() < kShown) names.insert(c.name());
  });
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return "no job \"" + shown_text(job, kMostWhy) +
         "\"; accepted: " + (text.empty() ? "none: there are no jobs now" : text);
}

HttpResponse Administration::act(const PageOrder& order, Instant now) {
  OrderFields fields(order.fields);
  const std::string job = fields.text("job", true);
  const bool of_member = order.page == Page::kKick || order.page == Page::kDrain;
  ft::CoordinatorService::MemberOrder asked{job, {}, {}};
  if (of_member) {
    asked.rank = fields.rank();
    asked.why = plain_why(fields.text("why", false));
  }
  Duration time{};
  if (order.page == Page::kDrain) time = fields.seconds("timeout_s", kDrain, kLongestDrain);
  if (order.page == Page::kPause)
    time = fields.seconds("at_most_s", kOrderedPause, kLongestOrderedPause);
  if (const std::string wrong = fields.wrong(); !wrong.empty()) return refuse_with(400, wrong);
  const std::string what = job + (of_member ? " rank " + std::to_string(asked.rank.value) : "");
  Status done = Status::ok();
  int refused = kConflict;
  if (!order.caller.may_see(job)) {
    done = {Code::kConfigError, "the token is of the run \"" + order.caller.run +
                                    "\"; accepted: its jobs, \"" + order.caller.run + "/...\""};
    refused = 403;
  } else if (service_.find_world(job) == nullptr) {
    done = {Code::kConfigError, unknown_job(order.caller, job)};
    refused = kNotFound;
  } else {
    switch (order.page) {
      case Page::kKick: done = service_.kick(asked, now); break;
      case Page::kDrain: done = service_.drain(asked, now + time); break;
      case Page::kPause: done = service_.pause(job, now + time); break;
      default: done = service_.resume(job, now); break;
    }
  }
  ways_.note(order, what + ": " + (done.is_ok() ? "asked for" : "refused: " + done.message()));
  if (!done.is_ok()) return refuse_with(refused, done.message());
  JsonWriter out;
  out.open("", '{');
  out.text("job", job);
  if (of_member) out.number("rank", static_cast<std::uint64_t>(asked.rank.value));
  return json_answer(200, std::move(out));
}

HttpResponse Administration::revoke(const PageOrder& order) {
  OrderFields fields(order.fields);
  const std::string serial = fields.text("serial", true);
  if (const std::string wrong = fields.wrong(); !wrong.empty()) return refuse_with(400, wrong);
  const auto token = secure::parse_serial(serial);
  if (!token.is_ok()) return refuse_with(400, token.status().message());
  // A serial does not say its run.
  const std::string& run = order.caller.run;
  if (!run.empty() && ways_.run_of(token.value()) != run) {
    const std::string why =
        "nobody has come into the run \"" + run +
        "\" by it; who has a token of this run may revoke "
        "those by which somebody has, and a credential of the coordinator's file any";
    ways_.note(order, "token " + serial + ": refused: " + why);
    return refuse_with(403, why);
  }
  const Status done = ways_.revoke(token.value());
  ways_.note(order, "token " + serial + ": " + (done.is_ok() ? "revoked" : done.message()));
  if (!done.is_ok()) return refuse_with(kConflict, done.message());
  JsonWriter out;
  out.open("", '{');
  out.text("serial", serial);
  return json_answer(200, std::move(out));
}

HttpResponse Administration::jobs(const health::PageCaller& caller, Instant now) const {
  JsonWriter out;
  out.open("", '{');
  out.open("jobs", '[');
  service_.each_world([&](const ft::Coordinator& c) {
    if (!caller.may_see(c.name())) return;
    const std::string run = ft::run_of_world(c.name());
    out.open("", '{');
    out.text("name", c.name());
    out.text("run", run);
    out.number("epoch", std::uint64_t{c.view().epoch.value});
    out.number("present", std::uint64_t{c.view().present().size()});
    out.number("ranks", std::uint64_t{c.view().members.size()});
    out.number("waiting", std::uint64_t{c.waiting()});
    out.text("blocked", c.blocked());
    const auto paused = c.paused_until();
    out.text("paused", !paused ? "no" : c.is_at_rest() ? "yes" : "at the next step boundary");
    if (paused) {
      out.number("paused_for_s", in_seconds_from(now, *paused));
    } else {
      out.nothing("paused_for_s");
    }
    const ft::RunQuota quota = service_.quotas().of(run);
    const ft::RunUse use = service_.use_of(run);
    out.open("quota", '{');
    write_limit(out, "members", quota.members);
    out.number("members_used", std::uint64_t{use.members + use.waiting});
    write_limit(out, "groups", quota.groups);
    out.number("groups_used", std::uint64_t{use.groups + use.lobbies});
    out.close('}');
    out.close('}');
  });
  out.close(']');
  return json_answer(200, std::move(out));
}

HttpResponse Administration::members(const PageOrder& order) {
  OrderFields fields(order.fields);
  const std::string job = fields.text("job", true);
  if (const std::string wrong = fields.wrong(); !wrong.empty()) return refuse_with(400, wrong);
  const bool own = order.caller.may_see(job);
  const ft::Coordinator* world = own ? service_.find_world(job) : nullptr;
  if (world == nullptr) return refuse_with(kNotFound, unknown_job(order.caller, job));
  JsonWriter out;
  out.open("", '{');
  out.text("job", job);
  out.number("epoch", std::uint64_t{world->view().epoch.value});
  out.number("ranks", std::uint64_t{world->view().members.size()});
  out.text("blocked", world->blocked());
  const auto write = [&](MemberId member, const std::string& card) {
    const MemberFacts facts = ways_.facts_of(member, card);
    out.text("member", health::hex_digits(member.value));
    out.text("host", facts.host);
    out.text("address", facts.address);
    out.text("token", facts.token);
  };
  out.open("members", '[');
  for (std::size_t r = 0; r < world->view().members.size(); ++r) {
    const MemberId member = world->view().members[r];
    if (member == ft::kNobody) continue;
    out.open("", '{');
    out.number("rank", std::uint64_t{r});
    write(member, world->view().cards[r]);
    out.text("order", world->order_for(member));
    out.close('}');
  }
  out.close(']');
  out.open("lobby", '[');
  for (const MemberId member : world->lobby()) {
    out.open("", '{');
    write(member, "");
    out.close('}');
  }
  out.close(']');
  return json_answer(200, std::move(out));
}

}  // namespace holdfast::runtime
