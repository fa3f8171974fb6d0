// The file of roles: whose certificate may do what, and what a line that is wrong is told.
#include <doctest/doctest.h>

#include <string>

#include "runtime/certificates/role_table.h"

namespace holdfast::runtime {
namespace {

RoleTable table_of(const std::string& text) {
  auto table = RoleTable::parse(text);
  REQUIRE_MESSAGE(table.is_ok(), table.status().message());
  return std::move(table).value();
}

bool is_member(const RoleTable& table, const std::string& subject, const std::string& run) {
  return table.check_member(subject, run).is_ok();
}

TEST_CASE("a line gives a subject a role in a run") {
  const RoleTable table = table_of(
      "# who may join\n"
      "\n"
      "member run7 CN=alice,O=Example\r\n"
      "  member\t*   CN=bob,O=Example  \n"
      "observer run7 CN=carol,O=Example\n"
      "member run8 CN=carol,O=Example");
  CHECK(is_member(table, "CN=alice,O=Example", "run7"));
  CHECK_FALSE(is_member(table, "CN=alice,O=Example", "run8"));
  CHECK(is_member(table, "CN=bob,O=Example", "run7"));
  CHECK(is_member(table, "CN=bob,O=Example", "any"));
  CHECK_FALSE(is_member(table, "CN=carol,O=Example", "run7"));
  CHECK(is_member(table, "CN=carol,O=Example", "run8"));
  // All of a subject counts, and its order.
  for (const char* other : {"CN=alice", "O=Example,CN=alice", "CN=alice,O=Example,C=DE",
                            "CN=Alice,O=Example", "CN=alice,O=Example ", "", "CN=*,O=Example"}) {
    CAPTURE(other);
    CHECK_FALSE(is_member(table, other, "run7"));
  }
}

TEST_CASE("who has no role is told what there is instead") {
  const RoleTable table = table_of("observer run7 CN=carol\nmember run8 CN=dan");
  CHECK(table.check_member("CN=carol", "run7").code() == Code::kAuthFailed);
  CHECK(table.check_member("CN=carol", "run7").message().find("has the role observer in the run") !=
        std::string::npos);
  CHECK(table.check_member("CN=dan", "run7").message().find("one in another run") !=
        std::string::npos);
  CHECK(table.check_member("CN=eve", "run7").message().ends_with("member run7 CN=eve"));
}

TEST_CASE("a star stands for one whole value, and nothing else") {
  const RoleTable table = table_of("member * CN=*,OU=Team A,O=Example");
  CHECK(is_member(table, "CN=alice,OU=Team A,O=Example", "run7"));
  CHECK(is_member(table, "CN=a\\,b,OU=Team A,O=Example", "run7"));
  // More parts, another type, and a part of several values are other subjects.
  for (const char* other : {"CN=alice,CN=bob,OU=Team A,O=Example", "UID=alice,OU=Team A,O=Example",
                            "CN=alice+UID=7,OU=Team A,O=Example", "CN=alice,OU=Team B,O=Example",
                            "CN=alice,OU=Team A", "CN=alice\\,OU=Team A,O=Example"}) {
    CAPTURE(other);
    CHECK_FALSE(is_member(table, other, "run7"));
  }
  CHECK(is_member(table_of("member r CN=a\\*b"), "CN=a\\*b", "r"));
  CHECK(is_member(table_of("member r CN=x\\ "), "CN=x\\ ", "r"));
  CHECK_FALSE(is_member(table_of("member r CN=x\\ "), "CN=x", "r"));
}

TEST_CASE("a line that is wrong is named, with what is accepted") {
  const auto refusal = [](const std::string& line) {
    const auto table = RoleTable::parse("member run7 CN=alice\n\n" + line + "\n");
    REQUIRE_FALSE(table.is_ok());
    CHECK(table.status().code() == Code::kConfigError);
    std::string why = table.status().message();
    CAPTURE(why);
    CHECK(why.starts_with("line 3: "));
    CHECK(why.find("accepted: ROLE RUN SUBJECT") != std::string::npos);
    return why;
  };
  const auto says = [](const std::string& why, const std::string& part) {
    CAPTURE(why);
    return why.find(part) != std::string::npos;
  };
  CHECK(says(refusal("boss run7 CN=alice"), "unknown role"));
  CHECK(says(refusal("member run/7 CN=alice"), "letters, digits"));
  CHECK(says(refusal("member run7"), "there is no subject"));
  CHECK(says(refusal("member"), "the run's name is empty"));
  CHECK(says(refusal("member run7 alice"), "is no part of a subject"));
  CHECK(says(refusal("member run7 /CN=alice/O=Example"), "is no part of a subject"));
  CHECK(says(refusal("member run7 CN = alice, O = Example"), "is no part of a subject"));
  CHECK(says(refusal("member run7 CN=alice, O=Example"), "is no part of a subject"));
  CHECK(says(refusal("member run7 CN=al*"), "has a * in a value"));
  CHECK(says(refusal("member run7 *"), "is no part of a subject"));
  CHECK(says(refusal("member run7 CN="), "has no value"));
  CHECK(says(refusal("member run7 CN=al\xc3\xa9"), "printable ones of ASCII"));
  CHECK(says(refusal("member run7 CN=" + std::string(600, 'a')), "more than 512 bytes"));
}

}  // namespace
}  // namespace holdfast::runtime
