// What happens when: scenarios of membership, each a file that tells events and what comes of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/planted.h"
#include "membership_scenario/script.h"

namespace holdfast::ft::testing {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> scenarios() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(MEMBERSHIP_SCENARIOS)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string complaint_of(const std::string& text) { return Script("x.txt", text).run().complaint; }

TEST_CASE("what happens in a scenario is what its file says") {
  const auto paths = scenarios();
  CHECK(paths.size() > 0);
  for (const fs::path& path : paths) {
    const std::string file = path.filename().string();
    const auto outcome = Script(file, text_of(path)).run();
    const std::string& complaint = outcome.complaint;
    const std::string& accepted = outcome.accepted;
    const bool as_told = complaint.empty();
    CHECK_MESSAGE(as_told, complaint, "\n", file, " as it would be accepted:\n\n", accepted);
  }
}

TEST_CASE("a scenario is accepted as it is written: what it expects, and nothing else") {
  for (const fs::path& path : scenarios()) {
    const std::string text = text_of(path);
    CHECK(Script(path.filename().string(), text).run().accepted == text);
    // Without what is expected: the trace of it all, which a second run accepts.
    std::istringstream lines(text);
    std::string events;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] != ' ') events += line + "\n";
    }
    const auto first = Script("x.txt", events).run();
    CHECK_FALSE(first.complaint.empty());
    CHECK(complaint_of(first.accepted) == "");
  }
}

// Mistakes that the simulator needs many worlds for (test_planted.cpp).
TEST_CASE("a scenario notices when what it shows is not so") {
  for (const auto& row : std::vector<std::pair<Planted, std::string>>{
           {Planted::kIgnoreBallot, "promise_is_overtaken"},
           {Planted::kForgetVote, "accepted_proposal_stands"},
           {Planted::kMinority, "silent_member"},
           {Planted::kMinority, "coordinator_restarts"},
           {Planted::kNeverTakeBack, "no_quorum"},
           {Planted::kUnrecorded, "coordinator_restarts_with_record"},
           {Planted::kLowBallots, "two_coordinators"}}) {
    const std::string& name = row.second;
    CAPTURE(name);
    const std::string text = text_of(fs::path(MEMBERSHIP_SCENARIOS) / (name + ".txt"));
    planted = row.first;
    const std::string complaint = complaint_of(text);
    planted = Planted::kNone;
    CHECK(complaint.find("expected: ") != std::string::npos);
  }
}

TEST_CASE("a difference names file and line, what was expected and what happened") {
  const std::string told =
      "# Somebody ends.\nmembers a b\nb ends\na sees the end of b\n  a stops for nobody\n";
  const std::string complaint = complaint_of(told);
  CHECK(complaint.find("x.txt:5: expected: a stops for nobody\n") == 0);
  CHECK(complaint.find("x.txt:5: got:      a stops for b\n") != std::string::npos);
  const std::string too_much = "# Nothing comes of it.\nmembers a b\n  a stops for b\n";
  CHECK(complaint_of(too_much).find("got:      no more of \"members a b\"") != std::string::npos);
}

TEST_CASE("a line that is no event, or that cannot happen, says what was accepted") {
  const std::string begin = "# Two members.\nmembers a b\n";
  for (const auto& bad : std::vector<std::pair<std::string, std::string>>{
           {"a falls over", "is no event; accepted: members WHO, "},
           {"wait 3", "is no event; accepted: "},
           {"A ends", "is no event; accepted: "},
           {"c ends", "c does not run; accepted: one that does: a b"},
           {"a sees the end of b", "b runs; accepted: "},
           {"a asks b for any rank", "a has been here; accepted: "},
           {"deliver report a to b", "no report comes next from a to b; accepted: what does"},
           {"a greets the coordinator", "there is none; accepted: coordinator starts"},
           {"members c d", "there are members; accepted: "},
           {"coordinator starts", "founded without one; accepted: this line before theirs"},
           {"coordinator asks a for any rank", "asks nobody; accepted: a letter"},
           {"run 2000 s", "too long; accepted: at most 60 s"},
           {"   a stops for b", "indented by 3; accepted: 2 "}}) {
    const std::string& line = bad.first;
    const std::string& why = bad.second;
    CAPTURE(line);
    const std::string complaint = complaint_of(begin + line + "\n");
    CHECK(complaint.find("x.txt:3: ") == 0);
    CHECK(complaint.find(why) != std::string::npos);
  }
  CHECK(complaint_of("# One of them twice.\nmembers a a\n").find("letters, each once") !=
        std::string::npos);
  CHECK(complaint_of("members a b\n").find("accepted: a comment in the first lines") !=
        std::string::npos);
  CHECK(complaint_of("# No event.\n  a stops for b\n").find("accepted: an event") !=
        std::string::npos);
}

TEST_CASE("the page about scenarios has all of their words") {
  const std::string page = text_of(fs::path(MEMBERSHIP_SCENARIOS) / "README.md");
  for (const EventKind& event : kEvents) {
    CAPTURE(event.pattern);
    CHECK(page.find("`" + std::string(event.pattern) + "`") != std::string::npos);
  }
  for (const std::string_view kind : kKindNames) {
    CAPTURE(kind);
    CHECK(page.find("| `" + std::string(kind) + "`") != std::string::npos);
  }
  for (const fs::path& path : scenarios()) {
    CAPTURE(path.filename().string());
    CHECK(page.find("(" + path.filename().string() + ")") != std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::ft::testing
