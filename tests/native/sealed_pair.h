// Connections of one process to itself that a shared secret seals.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "runtime/rendezvous/sealer.h"
#include "runtime/rendezvous/secret_file.h"

namespace holdfast::runtime::testing {

// A secret file of its own, which goes when this does.
class SecretFile {
 public:
  SecretFile() {
    const char* folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/holdfast-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    REQUIRE(make_secret_file(path()).is_ok());
  }
  ~SecretFile() {
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  std::string path() const { return folder_ + "/secret"; }
  std::shared_ptr<const Sealer> sealer() const {
    return std::move(SecretHolder::open(path())).value();
  }

 private:
  std::string folder_;
};

struct SealedEnds {
  int fds[2] = {-1, -1};
  std::unique_ptr<TlsSeal> seals[2];  // the caller's and the answerer's

  comm::Connection end(int i) { return {fds[i], std::move(seals[i])}; }
};

// Both have shaken hands over a stream socket pair.
inline SealedEnds make_sealed_ends(const Sealer& sealer) {
  SealedEnds ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.fds) == 0);
  ends.seals[0] = std::move(sealer.call(MemberId{})).value();
  ends.seals[1] = std::move(sealer.answer()).value();
  bool open = false;
  for (int i = 0; i < 10 && !open; ++i) {
    const auto one = ends.seals[0]->shake_hands(ends.fds[0]);
    const auto other = ends.seals[1]->shake_hands(ends.fds[1]);
    REQUIRE_MESSAGE(one.is_ok(), one.status().message());
    REQUIRE_MESSAGE(other.is_ok(), other.status().message());
    open = one.value() && other.value();
  }
  REQUIRE(open);
  return ends;
}

}  // namespace holdfast::runtime::testing
