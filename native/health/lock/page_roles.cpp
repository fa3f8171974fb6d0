#include "health/lock/page_roles.h"

#include <array>

namespace holdfast::health {
namespace {

struct PageRow {
  std::string_view path;
  bool of_ranks;
  bool of_coordinators;
  std::array<bool, kPageReaderCount> readers;  // anybody, observers, admins
  bool acts = false;
};

// In the order of Page.
constexpr std::array<PageRow, kPageCount> kPages = {{
    {"/", true, true, {false, true, true}},
    {"/status", true, true, {false, true, true}},
    {"/metrics", true, true, {false, true, true}},
    // Probes of an orchestrator have no credential; anybody is told no more than whether it is
    // well.
    {"/healthz", true, true, {true, true, true}},
    {"/readyz", true, true, {true, true, true}},
    // Every op of the last minutes, and what the program's threads are at, with its file names.
    {"/flight", true, false, {false, false, true}},
    {"/stack", true, false, {false, false, true}},
    // Where the pages are that an observer may read anyway.
    {"/targets", false, true, {false, true, true}},
    {"/admin/jobs", false, true, {false, true, true}},
    {"/admin/members", false, true, {false, true, true}},
    {"/admin/kick", false, true, {false, false, true}, true},
    {"/admin/revoke", false, true, {false, false, true}, true},
    {"/admin/drain", false, true, {false, false, true}, true},
    {"/admin/pause", false, true, {false, false, true}, true},
    {"/admin/resume", false, true, {false, false, true}, true},
    {"", false, false, {false, true, true}},
}};

}  // namespace

Page page_at(std::string_view path, PageServer server) {
  for (std::size_t i = 0; i < kPages.size(); ++i) {
    const PageRow& row = kPages[i];
    const bool served = server == PageServer::kRank ? row.of_ranks : row.of_coordinators;
    if (served && row.path == path) return static_cast<Page>(i);
  }
  return Page::kUnknown;
}

std::string paths_of(PageServer server) {
  std::string text;
  for (const PageRow& row : kPages) {
    if (!(server == PageServer::kRank ? row.of_ranks : row.of_coordinators)) continue;
    text += (text.empty() ? "" : " ") + std::string(row.path);
  }
  return text;
}

bool may_read(PageReader reader, Page page) {
  return kPages[static_cast<std::size_t>(page)].readers[static_cast<std::size_t>(reader)];
}

bool is_action(Page page) { return kPages[static_cast<std::size_t>(page)].acts; }

std::optional<PageReader> page_reader(std::string_view word) {
  if (word == "observer") return PageReader::kObserver;
  if (word == "admin") return PageReader::kAdmin;
  return std::nullopt;
}

}  // namespace holdfast::health
