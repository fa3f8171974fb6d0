// A membership scenario: events, and below each what is expected to come of it. It is run once,
// from the first line to the last; README.md beside the scenarios has the words.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "events.h"

namespace holdfast::ft::testing {

class Script {
 public:
  struct Outcome {
    std::string complaint;  // a bad line, or the first difference; empty: all was as expected
    std::string accepted;   // the file, with what really happened
  };

  Script(std::string file, std::string text) : file_(std::move(file)), text_(std::move(text)) {}

  Outcome run() {
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      const Status read = take(line);
      if (read.is_ok()) continue;
      return {where(number_) + read.message() + "\n", accepted_};
    }
    finish();
    return {complaint_, accepted_};
  }

 private:
  struct Expected {
    int line;
    std::string text;
  };
  // Of the tree; longer ones go on in the next line, further in.
  static constexpr std::size_t kColumns = 100;
  static constexpr std::string_view kIndent = "  ";
  static constexpr std::string_view kGoesOn = "      ";
  static constexpr std::string_view kAnything = "...";

  std::string where(int line) const { return file_ + ":" + std::to_string(line) + ": "; }

  Status take(const std::string& line) {
    if (number_ == 1 && line.substr(0, 1) != "#") {
      return cannot("what happens, and what it shows?", "a comment in the first lines, after #");
    }
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (indent > 0 && indent < line.size()) return take_expected(line, indent);
    finish();
    accepted_ += line + "\n";
    if (line.empty() || line[0] == '#') return Status::ok();
    event_ = line;
    event_line_ = number_;
    const Status happened = happen(world_, line);
    got_ = world_.take_trace();
    return happened;
  }

  Status take_expected(const std::string& line, std::size_t indent) {
    if (event_.empty()) return cannot("nothing has happened yet", "an event in the line before");
    const std::string text = line.substr(indent);
    if (indent == kIndent.size()) {
      expected_.push_back({number_, text});
    } else if (indent == kGoesOn.size() && !expected_.empty()) {
      expected_.back().text += " " + text;
    } else {
      return cannot("indented by " + std::to_string(indent),
                    "2 for what is expected, 6 where such a line goes on");
    }
    return Status::ok();
  }

  void finish() {
    if (event_.empty()) return;
    const bool as_expected = look();
    for (const Expected& line : expected_) {
      if (as_expected) accepted_ += wrapped(line.text);
    }
    for (const std::string& line : got_) {
      if (!as_expected) accepted_ += wrapped(line);
    }
    event_.clear();
    expected_.clear();
    got_.clear();
  }

  static std::string wrapped(const std::string& line) {
    std::string text;
    std::string row(kIndent);
    for (const std::string& word : words_in(line)) {
      if (row.size() + 1 + word.size() > kColumns) {
        text += std::exchange(row, std::string(kGoesOn)) + "\n";
      }
      row += (row.back() == ' ' ? "" : " ") + word;
    }
    return text + row + "\n";
  }

  // Whether the event did what was expected; says the first difference of the file.
  bool look() {
    std::size_t g = 0;
    for (std::size_t e = 0; e < expected_.size(); ++e) {
      if (expected_[e].text == kAnything) {
        if (e + 1 == expected_.size()) return true;
        while (g < got_.size() && got_[g] != expected_[e + 1].text) ++g;
        continue;
      }
      if (g == got_.size() || got_[g] != expected_[e].text) {
        return differ(expected_[e].line, expected_[e].text, g);
      }
      ++g;
    }
    if (g == got_.size()) return true;
    const int last = expected_.empty() ? event_line_ : expected_.back().line;
    return differ(last, "no more of \"" + event_ + "\"", g);
  }

  bool differ(int line, const std::string& expected, std::size_t got) {
    if (!complaint_.empty()) return false;
    complaint_ = where(line) + "expected: " + expected + "\n" + where(line) +
                 "got:      " + (got < got_.size() ? got_[got] : "no more of \"" + event_ + "\"") +
                 "\n\n" + where(event_line_) + event_ + "\nwas expected to do\n";
    for (const Expected& each : expected_) complaint_ += wrapped(each.text);
    complaint_ += "and did\n";
    for (const std::string& each : got_) complaint_ += wrapped(each);
    return false;
  }

  std::string file_;
  std::string text_;
  ScenarioWorld world_;
  int number_ = 0;
  std::string event_;
  int event_line_ = 0;
  std::vector<Expected> expected_;
  std::vector<std::string> got_;
  std::string complaint_;
  std::string accepted_;
};

}  // namespace holdfast::ft::testing
