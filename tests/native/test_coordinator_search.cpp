// The addresses of a coordinator: how they are named, and which is called when.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/address.h"
#include "runtime/coordinator/host_search.h"
#include "runtime/coordinator/search.h"
#include "runtime/rendezvous/card.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Endpoint kA{"203.0.113.1", 29400};
const Endpoint kB{"203.0.113.2", 29400};
const Endpoint kC{"2001:db8::3", 29401};
const Status kRefused(Code::kPeerLost, "refused");
const Status kForeign(Code::kProtocolError, "no greeting");

CoordinatorAddress parsed(const std::string& text) {
  auto address = parse_coordinator(text);
  REQUIRE_MESSAGE(address.is_ok(), address.status().message());
  return address.value();
}

std::string named(const std::optional<Endpoint>& at) { return at ? to_string(*at) : "nobody"; }

struct Search : CoordinatorSearch {
  explicit Search(const std::vector<std::vector<Endpoint>>& hosts = {{kA}, {kB}, {kC}}) {
    set_hosts(hosts, now);
    begin(now);
  }
  // Whom it calls when it is time.
  std::string call() {
    now = std::max(now, due());
    return named(next(now));
  }
  // The same, and the call is refused at once.
  std::string refuse(const Endpoint& at, const Status& why = kRefused) {
    const std::string called = call();
    on_failure(at, why, now);
    return called;
  }
  Instant now{seconds(7)};
};

TEST_CASE("several addresses are read in their order, with one name of the job") {
  const auto address = parsed("holdfast://b.example:29400,[2001:db8::7]:29401,10.0.0.1:1/run7");
  REQUIRE(address.hosts.size() == 3);
  CHECK(address.hosts[0].host == "b.example");
  CHECK(address.hosts[1].host == "2001:db8::7");
  CHECK(address.hosts[1].port == 29401);
  CHECK(address.hosts[2].host == "10.0.0.1");
  CHECK(address.hosts[2].port == 1);
  CHECK(address.job == "run7");
  CHECK(address.sorted() == "10.0.0.1:1,[2001:db8::7]:29401,b.example:29400");
}

TEST_CASE("who names the same addresses in another order or spelling has the same coordinator") {
  const auto one = parsed("a:1,B.example:2,[2001:db8::7]:3/run");
  const auto other = parsed("[2001:db8:0:0::7]:3,a:1,b.EXAMPLE:2/other");
  CHECK(one.sorted() == other.sorted());
  CHECK(one.member() == other.member());
  CHECK(one.member() != parsed("a:1,b.example:2").member());
  CHECK(parsed("a:1").member() != parsed("a:2").member());
}

TEST_CASE("a list that cannot be used is refused with what is wrong, and what is accepted") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"a:1,", "an address is missing beside a comma"},
      {",a:1", "an address is missing beside a comma"},
      {"a:1,,b:2", "an address is missing beside a comma"},
      {"a:1,b", "\"b\" is no host:port"},
      {"a:1,b:0", "\"b:0\" has no such port"},
      {"a:1,b:65536", "\"b:65536\" has no such port"},
      {"a:1, b:2", "\" b:2\" has a space"},
      {"a:1,::1:2", "\"::1:2\" has more than one colon"},
      {"a:1,[]:2", "\"[]:2\" has no such host"},
      {"a:1,b:2,A:1/run", "a:1 is named twice"},
      {"[::1]:1,[0:0::1]:1", "[::1]:1 is named twice"},
      {"a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1", "too many addresses"},
      {std::string(250, 'a') + ":1," + std::string(250, 'b') + ":1," + std::string(250, 'c') +
           ":1," + std::string(250, 'd') + ":1," + std::string(250, 'e') + ":1",
       "the addresses are too long"},
      {std::string(254, 'a') + ":1,b:1", "\"" + std::string(254, 'a') + ":1\" has no such host"},
      {"a:1/x,b:1/" + std::string(200, 'n'), "the name is too long"},
  };
  for (const auto& row : wrong) {
    const std::string& text = row.first;
    const std::string& why = row.second;
    CAPTURE(text);
    const auto refused = parse_coordinator(text);
    REQUIRE_FALSE(refused.is_ok());
    CHECK(refused.status().code() == Code::kConfigError);
    const std::string& said = refused.status().message();
    CAPTURE(said);
    CHECK(said.find("coordinator \"" + text + "\": " + why + "; accepted: host:port") !=
          std::string::npos);
    CHECK(said.find("Name each address once") != std::string::npos);
  }
  CHECK(parse_coordinator("a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1").is_ok());
}

TEST_CASE("an address that refuses costs 50 ms before the next is called, round after round") {
  Search search;
  const Instant start = search.now;
  for (int round = 0; round < 3; ++round) {
    CHECK(search.refuse(kA) == to_string(kA));
    CHECK(search.refuse(kB) == to_string(kB));
    CHECK(search.refuse(kC) == to_string(kC));
  }
  CHECK(search.now - start == 8 * milliseconds(50));
  CHECK(search.text() == "refused; refused; refused");
}

TEST_CASE("a silent address costs a second, and its call stays open beside the others") {
  Search search;
  const Instant start = search.now;
  CHECK(search.call() == to_string(kA));
  CHECK(named(search.next(search.now + milliseconds(999))) == "nobody");
  CHECK(search.refuse(kB) == to_string(kB));
  CHECK(search.now - start == seconds(1));
  CHECK(search.refuse(kC) == to_string(kC));
  CHECK_MESSAGE(search.refuse(kB) == to_string(kB), "the first is still being called");
  CHECK(search.text() == to_string(kA) + " does not answer; refused; refused");
  search.on_failure(kA, kRefused, search.now);
  CHECK(search.refuse(kC) == to_string(kC));
  CHECK(search.call() == to_string(kA));
}

TEST_CASE("where all are silent nobody is called twice, and the first failure goes on at once") {
  Search search;
  for (const Endpoint& at : {kA, kB, kC}) CHECK(search.call() == to_string(at));
  CHECK(search.call() == "nobody");
  CHECK(search.call() == "nobody");
  search.on_failure(kB, kRefused, search.now);
  CHECK(search.due() == search.now + kAfterRefusal);
  CHECK(search.call() == to_string(kB));
}

TEST_CASE("a lost coordinator is sought first where it was") {
  Search search;
  CHECK(search.refuse(kA) == to_string(kA));
  CHECK(search.call() == to_string(kB));
  search.on_found(kB);
  CHECK_FALSE(search.since().has_value());
  CHECK(search.text().empty());
  search.now = search.now + seconds(3600);
  search.begin(search.now);
  CHECK(search.since() == search.now);
  const Instant start = search.now;
  CHECK(search.refuse(kB) == to_string(kB));
  CHECK(search.refuse(kC) == to_string(kC));
  CHECK(search.call() == to_string(kA));
  CHECK(search.now - start == 2 * kAfterRefusal);
  search.begin(search.now + seconds(1));
  CHECK_MESSAGE(search.since() == start, "it goes on");
}

TEST_CASE("a name that leads elsewhere is called there at once, and calls that are open stay") {
  Search search({{kA}, {kB}});
  CHECK(search.call() == to_string(kA));
  CHECK(search.call() == to_string(kB));
  search.set_hosts({{kA}, {kC, kC}}, search.now);
  CHECK(named(search.next(search.now)) == to_string(kC));
  CHECK(search.call() == "nobody");
  search.on_failure(kB, kRefused, search.now);
  CHECK(search.call() == "nobody");
}

TEST_CASE("no address at all calls nobody") {
  Search search(std::vector<std::vector<Endpoint>>{});
  CHECK(search.call() == "nobody");
  CHECK(search.text().empty());
  CHECK(search.hopeless().is_ok());
}

TEST_CASE("a search is hopeless when something else answers at each host") {
  Search one({{kA, kC}});
  one.refuse(kA);
  CHECK(one.hopeless().is_ok());
  one.refuse(kC, kForeign);
  CHECK_MESSAGE(one.hopeless().message() == "no greeting", "of one host all addresses are it");

  Search two({{kA}, {kB}});
  two.refuse(kA, kForeign);
  two.refuse(kB);
  CHECK_MESSAGE(two.hopeless().is_ok(), "it may be about to start at the other");
  two.refuse(kA, kForeign);
  two.refuse(kB, kForeign);
  CHECK(two.hopeless().code() == Code::kProtocolError);
}

TEST_CASE("a name is resolved beside everything else, and a numeric address never") {
  HostSearch numeric("2001:db8::7", 29400, [](const std::string&) {
    return Result<std::vector<std::string>>(Status(Code::kConfigError, "was looked up"));
  });
  numeric.look({});
  numeric.await();
  CHECK(numeric.failure().is_ok());
  REQUIRE(numeric.endpoints().size() == 1);
  CHECK(to_string(numeric.endpoints()[0]) == "[2001:db8::7]:29400");

  const auto calls = std::make_shared<int>(0);
  HostSearch name("coordinator.test", 29400, [calls](const std::string& host) {
    CHECK(host == "coordinator.test");
    if (++*calls == 2) {
      return Result<std::vector<std::string>>(Status(Code::kConfigError, "no name server"));
    }
    return Result<std::vector<std::string>>({"203.0.113." + std::to_string(*calls)});
  });
  name.look(Instant{seconds(1)});
  name.await();
  REQUIRE(name.endpoints().size() == 1);
  CHECK(name.endpoints()[0].address == "203.0.113.1");
  name.look(Instant{seconds(4)});
  name.await();
  CHECK(name.failure().message() == "no name server");
  CHECK_MESSAGE(name.endpoints()[0].address == "203.0.113.1", "what is known stays in use");
  name.look(Instant{seconds(5)});
  name.await();
  CHECK_MESSAGE(*calls == 2, "not twice in two seconds");
}

TEST_CASE("cards that name different coordinators do not fit, and those that name one do") {
  Card one;
  Card other;
  CHECK(check_coordinators(one, other, "group g: rank 1").is_ok());
  one.coordinators = other.coordinators = "a:1,b:1";
  CHECK(check_coordinators(one, other, "group g: rank 1").is_ok());
  other.coordinators = "b:1,c:1";
  const Status differ = check_coordinators(one, other, "group g: rank 1");
  CHECK(differ.code() == Code::kConfigError);
  CHECK(differ.message().find("rank 1 names b:1,c:1") != std::string::npos);
  CHECK(differ.message().find("this process a:1,b:1") != std::string::npos);
  other.addresses = {"203.0.113.1"};
  other.member = {3};
  const auto read = parse_card(encode_card(other));
  REQUIRE(read.is_ok());
  CHECK(read.value().coordinators == "b:1,c:1");
}

}  // namespace
}  // namespace holdfast::runtime
