// Witness note: what a process leaves in a folder of whoever started it, so that the others hear of
// its end: its id, and where they are. Whoever waits for the process reads it, and says there that
// it has ended (secure/testimony.h). A process that stops in good order takes its note away.
#pragma once

#include <string>
#include <vector>

#include "base/net/socket.h"
#include "base/result.h"
#include "base/types.h"

namespace holdfast::runtime {

// The option witness, "KEY:FOLDER".
struct WitnessOption {
  std::string key;  // public, as hexadecimal digits
  std::string folder;
};
Result<WitnessOption> parse_witness(const std::string& text);

class WitnessNote {
 public:
  WitnessNote(const WitnessOption& option, MemberId self);
  ~WitnessNote();
  WitnessNote(const WitnessNote&) = delete;
  WitnessNote& operator=(const WitnessNote&) = delete;

  // Where the others are, each in a line. An error is ignored: then nobody is told.
  void write(const std::vector<Endpoint>& others);

 private:
  int owner_;  // the number of this process: a forked child leaves the note alone
  std::string path_;
  std::string text_;  // what is there
};

}  // namespace holdfast::runtime
