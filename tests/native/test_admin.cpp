// What operators ask of a coordinator by its pages: who may, in which form, and what comes of it.
#include <doctest/doctest.h>

#include <string>

#include "health/pages.h"
#include "runtime/coordinator/admin/administration.h"
#include "runtime/coordinator/admin/order_desk.h"

namespace holdfast::runtime {
namespace {

using health::HttpRequest;
using health::HttpResponse;
using health::Page;
using health::PageCaller;
using health::PageReader;

constexpr Instant kNow{std::chrono::seconds(100)};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A coordinator with two jobs of three members each, and its pages.
struct Desk {
  Desk() {
    for (const auto& [world, name] : {std::pair{7, "run7/a"}, {8, "run8/a"}}) {
      ft::Message greet;
      greet.kind = ft::MessageKind::kGreet;
      greet.world = {static_cast<std::uint64_t>(world)};
      greet.epoch = greet.view.epoch = {3};
      greet.view.members = {{static_cast<std::uint64_t>(world) * 10 + 1},
                            {static_cast<std::uint64_t>(world) * 10 + 2},
                            {static_cast<std::uint64_t>(world) * 10 + 3}};
      greet.view.cards.resize(3);
      greet.text = name;
      for (const MemberId member : greet.view.members) service.on_message(member, greet, kNow);
    }
  }
  Administration administration() {
    Administration::Ways ways;
    ways.facts_of = [](MemberId, const std::string&) {
      return MemberFacts{"host1", "127.0.0.1", "abcd"};
    };
    ways.revoke = [this](const secure::Serial& token) {
      revoked.insert(token);
      return Status::ok();
    };
    ways.run_of = [](const secure::Serial& token) {
      return std::string(token.bytes[0] == std::byte{7} ? "run7" : "run8");
    };
    ways.note = [this](const health::PageOrder& order, const std::string& what) {
      notes.push_back(order.caller.name + ": " + what);
    };
    return {service, std::move(ways)};
  }
  static PageCaller judge(std::string_view text) {
    if (text == "hf1-admin") return {PageReader::kAdmin, "serial", "serial", "run7"};
    if (text == "hf1-observer") return {PageReader::kObserver, "serial2", "serial2", "run7"};
    if (text == "hf1-member") return {PageReader::kAnybody, "s", "s", "run7", "the role is member"};
    return {PageReader::kAnybody, "", "", "", "the token expired 1 s ago"};
  }
  HttpResponse ask(HttpRequest request) {
    health::PageSources sources{*health, *status};
    sources.coordinates = true;
    sources.credentials = credentials ? &*credentials : nullptr;
    if (knows_tokens) sources.tokens = judge;
    sources.is_private = is_private;
    sources.act = [this](health::PageOrder order) {
      return administration().carry_out(order, kNow);
    };
    sources.refused = [this](const health::PageCaller& caller, const std::string& address,
                             const std::string& why) {
      refusals.push_back(address + " " + caller.token + " " + why);
    };
    return health_page(request, sources);
  }
  HttpResponse post(const std::string& path, const std::string& body,
                    const std::string& by = "Bearer hf1-admin") {
    return ask({"POST", path, "", "", by, "application/json", body, "127.0.0.1"});
  }
  HttpResponse get(const std::string& path, const std::string& query = "",
                   const std::string& by = "Bearer hf1-admin") {
    return ask({"GET", path, query, "", by, "", "", "127.0.0.1"});
  }

  ft::CoordinatorService service{{}};
  std::shared_ptr<const Clock> clock = std::make_shared<MonotonicClock>();
  std::unique_ptr<health::Health> health =
      health::Health::create({"", std::chrono::seconds(1)}, {1}, "host", clock).value();
  std::unique_ptr<health::StatusModel> status = std::make_unique<health::StatusModel>(
      [](const std::string&) { return health::MemberPlace{}; });
  std::optional<health::Credentials> credentials;
  bool knows_tokens = true;
  bool is_private = true;
  std::vector<std::string> notes;
  std::vector<std::string> refusals;
  std::set<secure::Serial> revoked;
};

const std::string kKick7 = R"({"job": "run7/a", "rank": 1, "why": "hangs\n"})";

TEST_CASE("an admin's token acts on its run, and on no other") {
  Desk desk;
  const HttpResponse done = desk.post("/admin/kick", kKick7);
  CHECK(done.status == 200);
  CHECK(done.body == "{\"job\":\"run7/a\",\"rank\":1}\n");
  CHECK(desk.notes.back() == "serial: run7/a rank 1: asked for");
  CHECK(desk.service.find_world("run7/a")->order_for({72}) == "kick");
  for (const auto* path : {"kick", "drain", "pause", "resume"}) {
    const bool of_member = std::string(path) == "kick" || std::string(path) == "drain";
    const HttpResponse other =
        desk.post(std::string("/admin/") + path,
                  of_member ? R"({"job": "run8/a", "rank": 1})" : R"({"job": "run8/a"})");
    CHECK(other.status == 403);
    CHECK(has(other.body, "the token is of the run"));
    CHECK(has(desk.notes.back(), "refused"));
  }
  CHECK(desk.service.find_world("run8/a")->order_for({82}) == "");
  // It sees its own run only.
  CHECK_FALSE(has(desk.get("/admin/jobs").body, "run8"));
  CHECK(desk.get("/admin/members", "job=run8/a").status == 404);
  CHECK_FALSE(has(desk.get("/admin/members", "job=run8%2Fa").body, "run8/a\"}"));
  CHECK(has(desk.get("/admin/members", "job=run7%2Fa").body, "\"host\":\"host1\""));
  CHECK(desk.get("/metrics").status == 403);
  CHECK(desk.get("/targets").status == 403);
  CHECK(desk.get("/status").status == 200);
}

TEST_CASE("who may not act is told so, in the terms of pages") {
  Desk desk;
  const auto refused = [&](const std::string& by, int status, const std::string& why) {
    for (const auto* path : {"kick", "drain", "pause", "resume", "revoke"}) {
      const HttpResponse answer = desk.post(std::string("/admin/") + path, kKick7, by);
      CHECK_MESSAGE(answer.status == status, by);
      CHECK_MESSAGE(has(answer.body, why), answer.body);
    }
  };
  refused("Bearer hf1-member", 403, "the role is member");
  refused("Bearer hf1-observer", 403, "for the role admin");
  refused("Bearer hf1-expired", 401, "the token expired 1 s ago");
  // Without a file of credentials whoever is on loopback may read, and nobody may act.
  refused("", 403, "who acts must have a credential");
  refused("Bearer something-else-0123", 403, "who acts must have a credential");
  CHECK(desk.get("/admin/jobs", "", "").status == 200);
  desk.knows_tokens = false;
  refused("Bearer hf1-admin", 403, "who acts must have a credential");
  desk.credentials = health::Credentials::parse("admin basic ada correct-horse-battery").value();
  refused("Bearer hf1-admin", 401, "wants a credential");
  refused("", 401, "wants a credential");
  desk.knows_tokens = true;
  desk.is_private = false;
  refused("Bearer hf1-admin", 401, "not sent in the clear");
  // A user of the file acts on all runs.
  const std::string ada = "Basic YWRhOmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ==";
  CHECK(desk.post("/admin/pause", R"({"job": "run8/a"})", ada).status == 200);
  CHECK(desk.notes.back() == "ada: run8/a: asked for");
  CHECK(has(desk.get("/admin/jobs", "", ada).body, "\"paused\":\"at the next step boundary\""));
}

TEST_CASE("who is refused a page is noted, with what was asked for, and nobody else") {
  Desk desk;
  desk.credentials = health::Credentials::parse("admin basic ada correct-horse-battery").value();
  CHECK(desk.get("/status").status == 200);
  CHECK(desk.get("/no-such-page").status == 404);
  CHECK(desk.post("/admin/kick", "{").status == 400);
  CHECK(desk.refusals.empty());
  desk.get("/metrics", "", "Bearer guessed");
  desk.get("/flight" + std::string(1000, 'x') + "\n", "", "");
  desk.post("/admin/kick", kKick7, "Bearer hf1-observer");
  REQUIRE(desk.refusals.size() == 3);
  CHECK(desk.refusals[0] ==
        "127.0.0.1  GET /metrics: this page wants a credential (option http_credentials)");
  CHECK(desk.refusals[1].size() < 200);
  CHECK(desk.refusals[2] == "127.0.0.1 serial2 POST /admin/kick: this page is for the role admin");
}

TEST_CASE("what is no order is refused, and does nothing") {
  Desk desk;
  CHECK(desk.get("/admin/kick").status == 405);
  CHECK(desk.get("/admin/kick").allow == "POST");
  CHECK(desk.post("/admin/jobs", "{}").status == 405);
  CHECK(desk.post("/status", "{}").status == 405);
  CHECK(desk.post("/none", "{}").status == 404);
  HttpRequest form{"POST", "/admin/kick", "", "", "Bearer hf1-admin", "", kKick7, ""};
  for (const auto* type : {"", "text/plain", "application/x-www-form-urlencoded",
                           "application/jsonp", "application"}) {
    form.content_type = type;
    CHECK_MESSAGE(desk.ask(form).status == 415, type);
  }
  form.content_type = "application/json ; charset=utf-8";
  for (const auto* body :
       {"", "{", "[]", "1", "{}", R"({"job": "run7/a"})", R"({"job": 7, "rank": 1})",
        R"({"job": "run7/a", "rank": "1"})", R"({"job": "run7/a", "rank": 1.5})",
        R"({"job": "run7/a", "rank": -1})", R"({"job": "run7/a", "rank": 1e9})",
        R"({"job": "run7/a", "rank": 1, "rank": 1})", R"({"job": "run7/a", "rank": 1, "x": 1})",
        R"({"job": "run7/a", "rank": 1, "why": {"a": {"b": 1}}})"}) {
    form.body = body;
    const HttpResponse answer = desk.ask(form);
    CHECK_MESSAGE(answer.status == 400, body);
    CHECK(has(answer.body, "{\"error\":"));
  }
  CHECK(desk.post("/admin/pause", R"({"job": "run7/a", "at_most_s": 0})").status == 400);
  CHECK(desk.post("/admin/drain", R"({"job": "run7/a", "rank": 1, "timeout_s": 1e9})").status ==
        400);
  for (const auto* query : {"", "job", "job=%", "job=%zz", "job=a&job=b", "jobs=a"}) {
    CHECK_MESSAGE(desk.get("/admin/members", query).status >= 400, query);
  }
  const HttpResponse unknown = desk.post("/admin/kick", R"({"job": "run7/b", "rank": 1})");
  CHECK(unknown.status == 404);
  CHECK(has(unknown.body, "run7/a"));
  CHECK_FALSE(has(unknown.body, "run8"));
  const HttpResponse rank = desk.post("/admin/kick", R"({"job": "run7/a", "rank": 5})");
  CHECK(rank.status == 409);
  CHECK(has(rank.body, "accepted: 0, 1, 2"));
  CHECK(desk.service.find_world("run7/a")->order_for({72}) == "");
}

TEST_CASE("a token of one run revokes tokens by which somebody has come into that run") {
  Desk desk;
  const auto serial = [](char first) { return std::string("0") + first + std::string(30, '0'); };
  const auto body = [&](char first) { return R"({"serial": ")" + serial(first) + R"("})"; };
  CHECK(desk.post("/admin/revoke", body('8')).status == 403);
  CHECK(desk.revoked.empty());
  CHECK(desk.post("/admin/revoke", body('7')).status == 200);
  CHECK(desk.revoked.size() == 1);
  CHECK(desk.notes.back() == "serial: token " + serial('7') + ": revoked");
  CHECK(desk.post("/admin/revoke", R"({"serial": "7"})").status == 400);
}

TEST_CASE("an order waits for the driving thread, and too many are turned away") {
  int woken = 0;
  OrderDesk desk([&] { ++woken; });
  HttpResponse first = desk.ask({});
  REQUIRE(first.later);
  CHECK_FALSE(first.later());
  for (std::size_t i = 1; i < kMostOrders; ++i) CHECK(desk.ask({}).later);
  CHECK(desk.ask({}).status == 503);
  CHECK(woken == static_cast<int>(kMostOrders));
  REQUIRE(desk.has_orders());
  auto orders = desk.take();
  REQUIRE(orders.size() == kMostOrders);
  CHECK_FALSE(desk.has_orders());
  orders[0].answer->give({200, "text/plain", "done"});
  CHECK(first.later()->body == "done");
}

}  // namespace
}  // namespace holdfast::runtime
