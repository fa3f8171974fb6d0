// Sealed connections, from the first byte to the link: who shares the secret is heard, everybody
// else is told that much and no more. Real sockets of this host.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sealed_door.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using testing::make_sealed_ends;
using testing::says;
using testing::SealedDoor;
using testing::SealedEnds;
using testing::SecretFile;
using State = Handshake::HandshakeState;

TEST_CASE("who shares the secret is heard; who does not is told so" *
          doctest::skip(!secure::available())) {
  const testing::SecretFile ours;
  const testing::SecretFile theirs;
  SealedDoor door(ours.sealer());
  const auto good = door.call(ours.sealer().get());
  CHECK(door.end_of(*good) == State::kReady);
  CHECK(good->peer().from == MemberId{2});
  const auto wrong = door.call(theirs.sealer().get());
  CHECK(door.end_of(*wrong) == State::kFailed);
  CHECK(says(wrong->failure(), "share no secret (option secret_file)"));
  // A refusal must not count as the word of a kernel that nobody listens there.
  CHECK(wrong->failure().code() == Code::kProtocolError);
  const auto plain = door.call(nullptr);
  CHECK(door.end_of(*plain) == State::kFailed);
  CAPTURE(plain->failure().message());
  CHECK(says(plain->failure(), "it has a secret: set option secret_file here, too"));
  CHECK(door.doorman().callers().greeted == 1);
  SealedDoor open(nullptr);
  const auto sealed = open.call(ours.sealer().get());
  CHECK(open.end_of(*sealed) == State::kFailed);
  CHECK(says(sealed->failure(), "share no secret"));
}

TEST_CASE("a recorded call is refused when it is played again" *
          doctest::skip(!secure::available())) {
  const testing::SecretFile secret;
  const auto sealer = secret.sealer();
  // All that a caller sends, taken from the wire.
  auto ends = testing::make_sealed_ends(*sealer);
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
  auto caller = std::move(sealer->call(MemberId{})).value();
  REQUIRE(caller->shake_hands(pair[0]).is_ok());
  std::vector<char> recorded(8192);
  const ssize_t size = ::recv(pair[1], recorded.data(), recorded.size(), MSG_DONTWAIT);
  REQUIRE(size > 100);
  SealedDoor door(sealer);
  const int fd = start_connect(door.at()).value();
  pollfd look{fd, POLLOUT, 0};
  REQUIRE(::poll(&look, 1, 5000) == 1);
  REQUIRE(::send(fd, recorded.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) == size);
  // The server's half comes back, and what follows it in the recording is not for its key.
  std::vector<char> noise(static_cast<std::size_t>(size), 'x');
  std::this_thread::sleep_for(milliseconds(50));
  ::send(fd, noise.data(), noise.size(), MSG_NOSIGNAL);
  for (int i = 0; i < 1000 && door.doorman().callers().turned_away == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  CHECK(door.doorman().callers().turned_away == 1);
  CHECK(door.doorman().callers().greeted == 0);
  close_unforked(fd);
  ::close(pair[0]);
  ::close(pair[1]);
}

// What one end sends, with bytes of it changed or sent twice by somebody in between.
TEST_CASE("a flipped bit, a doubled record and a cut are found" *
          doctest::skip(!secure::available())) {
  const testing::SecretFile secret;
  const auto sealer = secret.sealer();
  for (const std::string what : {"flip", "double", "cut", "nothing"}) {
    CAPTURE(what);
    auto ends = testing::make_sealed_ends(*sealer);
    std::vector<char> said(1000, 's');
    const iovec part{said.data(), said.size()};
    REQUIRE(ends.seals[0]->send(ends.fds[0], {&part, 1}) == 1000);
    std::vector<char> wire(4096);
    const ssize_t size = ::recv(ends.fds[1], wire.data(), wire.size(), MSG_DONTWAIT);
    REQUIRE(size > 1000);
    wire.resize(static_cast<std::size_t>(size));
    // The receiver reads from another pair of sockets, into which the changed bytes go.
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (what == "flip") wire[wire.size() / 2] ^= 1;
    REQUIRE(::send(pair[0], wire.data(), wire.size(), 0) == size);
    if (what == "double") REQUIRE(::send(pair[0], wire.data(), wire.size(), 0) == size);
    if (what == "cut") ::shutdown(pair[0], SHUT_WR);
    std::vector<char> got(8192);
    const iovec room{got.data(), got.size()};
    ssize_t count = ends.seals[1]->receive(pair[1], {&room, 1});
    if (what != "flip") {
      REQUIRE(count == 1000);
      count = ends.seals[1]->receive(pair[1], {&room, 1});
    }
    CHECK(count == -1);
    if (what == "nothing") CHECK(errno == EAGAIN);
    if (what == "cut") CHECK(errno == ECONNRESET);
    if (what == "flip" || what == "double") CHECK(errno == EBADMSG);
    for (const int fd : {ends.fds[0], ends.fds[1], pair[0], pair[1]}) ::close(fd);
  }
}

TEST_CASE("a further connection proves that its caller has the key of the first" *
          doctest::skip(!secure::available())) {
  const SecretFile file;
  const auto sealer = file.sealer();
  const SealedEnds first = make_sealed_ends(*sealer);
  const SealedEnds second = make_sealed_ends(*sealer);
  const secure::Secret key = first.seals[0]->export_key().value();
  CHECK(key.same(first.seals[1]->export_key().value()));
  const secure::Secret proof = second.seals[0]->prove_lane(key).value();
  CHECK(proof.same(second.seals[1]->prove_lane(key).value()));
  // Neither another trunk's key, nor a proof that another connection has heard, is of any use.
  CHECK_FALSE(
      proof.same(second.seals[1]->prove_lane(second.seals[1]->export_key().value()).value()));
  CHECK_FALSE(proof.same(first.seals[1]->prove_lane(key).value()));
  for (const SealedEnds* ends : {&first, &second}) {
    for (const int fd : ends->fds) ::close(fd);
  }
}

TEST_CASE("a secret file is for its owner alone, and is not written over" *
          doctest::skip(!secure::available())) {
  const testing::SecretFile secret;
  CHECK(read_secret_file(secret.path()).is_ok());
  struct stat about {};
  REQUIRE(::stat(secret.path().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777U) == 0600U);
  CHECK(says(make_secret_file(secret.path()), "not written over"));
  REQUIRE(::chmod(secret.path().c_str(), 0640) == 0);
  CHECK(says(read_secret_file(secret.path()).status(), "mode 0640); accepted: 0600"));
  REQUIRE(::chmod(secret.path().c_str(), 0600) == 0);
  CHECK(says(read_secret_file("/nowhere/at/all").status(), "holdfast secret FILE"));
  CHECK(says(read_secret_file("/tmp").status(), "this is no file"));
  const int fd = ::open(secret.path().c_str(), O_WRONLY | O_TRUNC);
  REQUIRE(::write(fd, "hello\n", 6) == 6);
  ::close(fd);
  CHECK(says(read_secret_file(secret.path()).status(), "no secret file"));
}

}  // namespace
}  // namespace holdfast::runtime
