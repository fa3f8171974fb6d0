// Role table: which subject of a certificate may do what in which run, from a file that whoever
// operates a coordinator writes. Subjects are compared as texts of RFC 2253, part by part; nothing
// else of a certificate gives a role. Why: docs/decisions/0162-certificates-open-the-same-door.md
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "secure/token.h"

namespace holdfast::runtime {

// It never changes: any thread, while one owns it.
class RoleTable {
 public:
  static constexpr std::size_t kMaxRows = 100'000;

  // Lines "ROLE RUN SUBJECT"; empty ones and those that begin with "#" say nothing. kConfigError
  // names the line and what is accepted.
  static Result<RoleTable> parse(std::string_view text);

  // Whether the subject may join the run as a member. kAuthFailed, with the subject and what the
  // table says of it instead.
  Status check_member(const std::string& subject, const std::string& run) const;

 private:
  struct Row {
    secure::TokenRole role;
    std::string run;                 // "*": any
    std::vector<std::string> parts;  // of the subject, such as "CN=alice"; "CN=*": any one of CN
  };
  static Result<Row> parse_row(std::string_view line);
  static bool is_of(const Row& row, const std::vector<std::string>& parts);

  std::vector<Row> rows_;
};

}  // namespace holdfast::runtime
