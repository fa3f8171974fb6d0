// What whoever started a process says of its end: who is believed, and that a sealed door hears it
// beside its callers.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../sealed_door.h"
#include "lacking.h"
#include "runtime/rendezvous/card.h"
#include "runtime/rendezvous/witness_note.h"
#include "secure/hex.h"
#include "secure/testimony.h"

namespace holdfast::secure {
namespace {

constexpr MemberId kEnded{0x1122334455667788};

TEST_CASE("a testimony is true by the key that made it, of that member, and by no other") {
  if (lacking()) return;
  const Identity witness = Identity::generate().value();
  const Identity other = Identity::generate().value();
  const auto said = testify(witness, kEnded).value();
  const auto read = parse_testimony(said);
  REQUIRE(read);
  CHECK(read->ended == kEnded);
  CHECK(is_true(*read, witness.public_key()));
  CHECK_FALSE(is_true(*read, other.public_key()));
  CHECK_FALSE(is_true({{kEnded.value + 1}, read->signature}, witness.public_key()));
  // What a key has signed for another purpose is nothing here.
  const auto elsewhere = sign(witness, "something else", std::span(said).subspan(8, 8)).value();
  CHECK_FALSE(is_true({kEnded, elsewhere}, witness.public_key()));
}

TEST_CASE("anything of another length or beginning is no testimony") {
  if (lacking()) return;
  const auto said = testify(Identity::generate().value(), kEnded).value();
  for (std::size_t length = 0; length < said.size(); ++length) {
    CHECK_FALSE(parse_testimony(std::span(said).first(length)));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    auto wrong = said;
    wrong.at(i) ^= std::byte{1};
    CHECK_FALSE(parse_testimony(wrong));
  }
}

void say(const runtime::Endpoint& at, std::span<const std::byte> what) {
  const int fd = runtime::start_connect(at).value();
  pollfd look{fd, POLLOUT, 0};
  REQUIRE(::poll(&look, 1, 5000) == 1);
  REQUIRE(::send(fd, what.data(), what.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(what.size()));
  close_unforked(fd);
}

TEST_CASE("a sealed door hears a witness that has no secret, and an open one does not") {
  if (lacking()) return;
  const Identity witness = Identity::generate().value();
  const runtime::testing::SecretFile secret;
  for (const bool sealed : {true, false}) {
    runtime::testing::SealedDoor door(sealed ? secret.sealer() : nullptr);
    say(door.at(), std::as_bytes(std::span("nothing that a process would say")));
    say(door.at(), testify(witness, kEnded).value());
    std::vector<Testimony> heard;
    for (int i = 0; i < 5000 && heard.empty(); ++i) {
      heard = door.doorman().take_testimonies();
      if (!sealed && door.doorman().callers().turned_away == 2) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(heard.size() == (sealed ? 1 : 0));
    if (sealed) CHECK(is_true(heard[0], witness.public_key()));
    CHECK(door.doorman().take().empty());
  }
}

TEST_CASE("a card names its witness, and says nothing of one that there is not") {
  runtime::Card card;
  card.member = kEnded;
  card.addresses = {"127.0.0.1"};
  card.host = "here";
  CHECK(encode_card(card).find("witness") == std::string::npos);
  card.witness = hex(PublicKey{});
  CHECK(runtime::parse_card(encode_card(card)).value().witness == card.witness);
  CHECK(runtime::host_in_card(encode_card(card)) == "here");
  CHECK(runtime::host_in_card("nothing").empty());
}

TEST_CASE("who starts processes names a key and a folder") {
  const std::string key = hex(PublicKey{});
  CHECK(runtime::parse_witness(key + ":/a:b").value().folder == "/a:b");
  for (const std::string& wrong :
       {std::string(), key, key + ":", std::string("12:/a"), ":" + key}) {
    CAPTURE(wrong);
    CHECK_FALSE(runtime::parse_witness(wrong).is_ok());
  }
}

TEST_CASE("a note goes with a process that stops in good order") {
  const auto folder = std::filesystem::temp_directory_path() / "holdfast_test_witness";
  std::filesystem::create_directory(folder);
  const auto notes = [&] {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  };
  {
    runtime::WitnessNote note({"", folder.string()}, kEnded);
    CHECK(notes() == 0);
    note.write({{"127.0.0.1", 5}, {"::1", 6}});
    CHECK(notes() == 1);
  }
  CHECK(notes() == 0);
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace holdfast::secure
