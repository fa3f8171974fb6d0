#include "runtime/certificates/role_table.h"

#include <algorithm>
#include <utility>

#include "secure/certificate.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kAccepted =
    "accepted: ROLE RUN SUBJECT, with ROLE member, observer or admin; RUN a run's name, or *; and "
    "SUBJECT as `openssl x509 -noout -subject -nameopt RFC2253` prints it, such as "
    "CN=alice,O=Example, in which * may stand for one whole value, as in CN=*,O=Example";

Status odd(const std::string& why) {
  return {Code::kConfigError, why + "; " + std::string(kAccepted)};
}

// At commas that no backslash precedes.
std::vector<std::string> parts_of(std::string_view subject) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < subject.size(); ++i) {
    if (subject[i] == '\\' && i + 1 < subject.size()) {
      parts.back() += subject[i++];
      parts.back() += subject[i];
    } else if (subject[i] == ',') {
      parts.emplace_back();
    } else {
      parts.back() += subject[i];
    }
  }
  return parts;
}

// Whether it has `letter` where no backslash precedes it.
bool has_bare(std::string_view part, char letter) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '\\') {
      ++i;
    } else if (part[i] == letter) {
      return true;
    }
  }
  return false;
}

Status check_part(const std::string& part) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
  };
  const std::size_t equals = part.find('=');
  const std::string type = part.substr(0, equals);
  if (equals == std::string::npos || type.empty() || !std::ranges::all_of(type, letter)) {
    return odd("\"" + part + "\" is no part of a subject, such as CN=alice");
  }
  const std::string value = part.substr(equals + 1);
  const bool ends_bare = value.ends_with(' ') && !value.ends_with("\\ ");
  if (value.empty() || value.front() == ' ' || ends_bare) {
    return odd("\"" + part + "\" has no value, or a space beside it");
  }
  if (value != "*" && has_bare(value, '*')) {
    return odd("\"" + part + "\" has a * in a value");
  }
  return Status::ok();
}

bool is_like(const std::string& pattern, const std::string& part) {
  if (!pattern.ends_with("=*")) return pattern == part;
  // A part with several values is none of them.
  return part.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1)) &&
         !has_bare(part, '+');
}

std::string_view next_word(std::string_view& rest) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  std::size_t size = 0;
  while (size < rest.size() && !is_space(rest[size])) ++size;
  const std::string_view word = rest.substr(0, size);
  rest.remove_prefix(size);
  return word;
}

}  // namespace

Result<RoleTable::Row> RoleTable::parse_row(std::string_view line) {
  Row row;
  const auto role = secure::parse_role(next_word(line));
  if (!role.is_ok()) return odd(role.status().message());
  row.role = role.value();
  row.run = next_word(line);
  if (row.run != "*") {
    if (const Status named = secure::check_run_name(row.run); !named.is_ok()) {
      return odd(named.message());
    }
  }
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  const auto ends_in_space = [&line] {
    return (line.ends_with(' ') && !line.ends_with("\\ ")) || line.ends_with('\t');
  };
  while (ends_in_space()) line.remove_suffix(1);
  if (line.empty()) return odd("there is no subject");
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (line.size() > secure::kMaxSubjectBytes || !std::ranges::all_of(line, printable)) {
    return odd("the subject has more than " + std::to_string(secure::kMaxSubjectBytes) +
               " bytes, or others than printable ones of ASCII");
  }
  row.parts = parts_of(line);
  for (const std::string& part : row.parts) TRY(check_part(part));
  return row;
}

Result<RoleTable> RoleTable::parse(std::string_view text) {
  RoleTable table;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::string_view rest = line;
    const std::string_view first = next_word(rest);
    if (first.empty() || first.starts_with('#')) continue;
    auto row = parse_row(line);
    if (!row.is_ok()) {
      return Status{Code::kConfigError,
                    "line " + std::to_string(number) + ": " + row.status().message()};
    }
    if (table.rows_.size() == kMaxRows) {
      return Status{Code::kConfigError, "line " + std::to_string(number) + ": accepted: up to " +
                                            std::to_string(kMaxRows) + " lines"};
    }
    table.rows_.push_back(std::move(row).value());
  }
  return table;
}

bool RoleTable::is_of(const Row& row, const std::vector<std::string>& parts) {
  return std::ranges::equal(row.parts, parts, is_like);
}

Status RoleTable::check_member(const std::string& subject, const std::string& run) const {
  const auto parts = parts_of(subject);
  std::string other_role;
  bool other_run = false;
  for (const Row& row : rows_) {
    if (!is_of(row, parts)) continue;
    const bool here = row.run == "*" || row.run == run;
    if (here && row.role == secure::TokenRole::kMember) return Status::ok();
    if (here) other_role = role_name(row.role);
    other_run = other_run || !here;
  }
  const std::string who = "the certificate's subject, " + subject + ", ";
  if (!other_role.empty()) {
    return {Code::kAuthFailed, who + "has the role " + other_role + " in the run \"" + run +
                                   "\"; accepted, to join: member"};
  }
  if (other_run) {
    return {Code::kAuthFailed, who + "has no role in the run \"" + run +
                                   "\", and one in another run (option tls_roles of the "
                                   "coordinator)"};
  }
  return {Code::kAuthFailed, who + "has no role in the run \"" + run +
                                 "\": whoever operates the coordinator gives it one in the file of "
                                 "its option tls_roles, with the line: member " +
                                 run + " " + subject};
}

}  // namespace holdfast::runtime
