#include "runtime/rendezvous/witness_note.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "secure/hex.h"
#include "secure/identity.h"

namespace holdfast::runtime {

Result<WitnessOption> parse_witness(const std::string& text) {
  const std::size_t colon = text.find(':');
  WitnessOption option;
  option.key = text.substr(0, colon);
  if (colon != std::string::npos) option.folder = text.substr(colon + 1);
  secure::PublicKey key{};
  if (secure::unhex(option.key, key) && !option.folder.empty()) return option;
  return Status{Code::kConfigError, "no key and folder"};
}

WitnessNote::WitnessNote(const WitnessOption& option, MemberId self)
    : owner_(::getpid()),
      path_(option.folder + "/" + std::to_string(owner_) + "-" + std::to_string(self.value)) {}

WitnessNote::~WitnessNote() {
  if (!text_.empty() && ::getpid() == owner_) ::unlink(path_.c_str());
}

// Renamed into place: whoever reads it has all of it.
void WitnessNote::write(const std::vector<Endpoint>& others) {
  std::string text;
  for (const Endpoint& other : others) {
    text += other.address + " " + std::to_string(other.port) + "\n";
  }
  if (text == text_) return;
  const std::string half = path_ + ".new";
  {
    std::ofstream file(half, std::ios::trunc);
    if (!(file << text).flush()) return;
  }
  if (std::rename(half.c_str(), path_.c_str()) == 0) text_ = std::move(text);
}

}  // namespace holdfast::runtime
