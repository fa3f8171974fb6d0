// Page roles: which page is for whom. One table says what each kind of reader gets, as ft/standing
// says who may say what; pages.h asks it before it makes an answer.
// Why: docs/decisions/0160-pages-have-a-lock.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::health {

// Who asks for a page.
enum class PageReader : std::uint8_t {
  kAnybody,   // without a credential, or with one that is not known
  kObserver,  // sees how the job is
  kAdmin      // sees what is in its processes, too
};
inline constexpr int kPageReaderCount = 3;

enum class Page : std::uint8_t {
  kStatusPage,
  kStatus,
  kMetrics,
  kHealthz,
  kReadyz,
  kFlight,
  kStack,
  kTargets,
  kJobs,
  kMembers,
  kKick,
  kRevoke,
  kDrain,
  kPause,
  kResume,
  kUnknown  // no page: what there is is told to who may read some
};
inline constexpr int kPageCount = 16;

// What serves the page.
enum class PageServer : std::uint8_t { kRank, kCoordinator, kRelay };

// kUnknown: that process serves nothing there.
Page page_at(std::string_view path, PageServer server);
// The paths that a process serves, with spaces between them.
std::string paths_of(PageServer server);

// To read it, or to do what it does.
bool may_read(PageReader reader, Page page);
// Whether it does something: it is asked for with POST, and no other page is.
bool is_action(Page page);

// "observer" and "admin" in a file of credentials; nullopt for others.
std::optional<PageReader> page_reader(std::string_view word);

}  // namespace holdfast::health
