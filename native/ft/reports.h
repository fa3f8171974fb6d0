// Reports: what the members of a view report of their groups when the view ends. Many report the
// same, so each part is kept, and sent, once.
// Why: docs/decisions/0128-a-second-report-names-the-first.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace holdfast {

class Reader;
class Writer;

namespace ft {

using Bytes = std::vector<std::byte>;

inline constexpr MemberId kNobody{0};

// What a member reports; opaque here (group_report.h). Its groups hardly ever change, and many
// members have the same: a process that has seen them knows them by their digest. How far the ops
// have come is always new.
struct Body {
  Bytes groups;
  Bytes ops;
  friend bool operator==(const Body&, const Body&) = default;
};

std::uint64_t digest_of(const Bytes& bytes);

class Reports {
 public:
  struct Said {
    MemberId member;  // kNobody: follows from the message that has the reports
    std::uint32_t groups = 0;
    std::uint32_t ops = 0;
    friend bool operator==(const Said&, const Said&) = default;
  };

  bool empty() const { return said_.empty(); }
  void add(MemberId member, const Bytes& groups, const Bytes& ops);
  void clear() { *this = {}; }

  // The entries in the order in which they were added.
  const std::vector<Said>& said() const { return said_; }
  // The parts, each once.
  const std::vector<Bytes>& groups() const { return groups_; }
  const std::vector<Bytes>& ops() const { return ops_; }

  // Removes the members' ids, or fills them in again. False: the counts differ.
  void forget_members();
  bool name_members(const std::vector<MemberId>& members);

  std::uint64_t digest() const;
  friend bool operator==(const Reports&, const Reports&) = default;

  friend void write(Writer& w, const Reports& reports);
  friend Reports read_reports(Reader& r);

 private:
  std::vector<Bytes> groups_;
  std::vector<Bytes> ops_;
  std::vector<Said> said_;
};

Reports read_reports(Reader& r);

}  // namespace ft
}  // namespace holdfast
