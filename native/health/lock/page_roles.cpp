#include "health/lock/page_roles.h"

#include <array>

namespace holdfast::health {
namespace {

struct PageRow {
  std::string_view path;
  bool of_ranks;
  bool of_coordinators;
  bool of_relays;
  std::array<bool, kPageReaderCount> readers;  // anybody, observers, admins
  bool acts = false;
};

// In the order of Page.
constexpr std::array<PageRow, kPageCount> kPages = {{
    {"/", true, true, false, {false, true, true}},
    {"/status", true, true, false, {false, true, true}},
    {"/metrics", true, true, true, {false, true, true}},
    // Probes of an orchestrator have no credential; anybody is told no more than whether it is
    // well.
    {"/healthz", true, true, true, {true, true, true}},
    {"/readyz", true, true, false, {true, true, true}},
    // Every op of the last minutes, and what the program's threads are at, with its file names.
    {"/flight", true, false, false, {false, false, true}},
    {"/stack", true, false, false, {false, false, true}},
    // Where the pages are that an observer may read anyway.
    {"/targets", false, true, false, {false, true, true}},
    {"/admin/jobs", false, true, false, {false, true, true}},
    {"/admin/members", false, true, false, {false, true, true}},
    {"/admin/kick", false, true, false, {false, false, true}, true},
    {"/admin/revoke", false, true, false, {false, false, true}, true},
    {"/admin/drain", false, true, false, {false, false, true}, true},
    {"/admin/pause", false, true, false, {false, false, true}, true},
    {"/admin/resume", false, true, false, {false, false, true}, true},
    {"", false, false, false, {false, true, true}},
}};

bool is_served(const PageRow& row, PageServer server) {
  switch (server) {
    case PageServer::kRank: return row.of_ranks;
    case PageServer::kCoordinator: return row.of_coordinators;
    case PageServer::kRelay: return row.of_relays;
  }
  return false;
}

}  // namespace

Page page_at(std::string_view path, PageServer server) {
  for (std::size_t i = 0; i < kPages.size(); ++i) {
    if (is_served(kPages[i], server) && kPages[i].path == path) return static_cast<Page>(i);
  }
  return Page::kUnknown;
}

std::string paths_of(PageServer server) {
  std::string text;
  for (const PageRow& row : kPages) {
    if (!is_served(row, server)) continue;
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
