// The flight recorder and its reader, on whole, torn, cut and damaged records.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/communicator.h"
#include "health/flight_json.h"
#include "health/flight_layout.h"
#include "health/flight_recorder.h"

namespace holdfast::comm {
namespace {

using Bytes = std::vector<std::byte>;

OpRequest a_request() {
  OpRequest request;
  request.collective = Collective::kReduce;
  request.dtype = DType::kBF16;
  request.op = ReduceOp::kMax;
  request.root = {3};
  return request;
}

// Begins an op and ends it, or not.
OpTicket record(health::FlightRecorder& recorder, std::uint32_t sequence, bool ends = true) {
  const OpRequest request = a_request();
  OpTicket ticket;
  ticket.bytes = 100 + sequence;
  ticket.path = OpPath::kFlat;
  ticket.started = {Duration(1000 + sequence)};
  ticket.number = recorder.begin({{77}, {sequence}, {5}, {1}, request}, ticket);
  if (ends) recorder.end(ticket.number, Code::kOk, false, {Duration(2000 + sequence)});
  return ticket;
}

std::unique_ptr<health::FlightRecorder> recorder_of(std::uint32_t entries,
                                                    const std::string& folder = "") {
  health::FlightSettings settings;
  settings.folder = folder;
  settings.host = "a host";
  settings.member = {0x1234};
  settings.entries = entries;
  settings.wall_offset = std::chrono::seconds(9);
  return health::FlightRecorder::create(settings).value();
}

health::FlightLog read(const Bytes& bytes) {
  auto log = health::read_flight(bytes);
  REQUIRE(log.is_ok());
  return std::move(log).value();
}

std::string folder_of_this_test() {
  const auto folder =
      std::filesystem::temp_directory_path() / ("holdfast-flight-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  return folder.string();
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void set_word(Bytes& bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at * 8, &value, 8);
}

std::size_t entry_at(std::size_t index) {
  return health::flight::kFrontWords + index * health::flight::kEntryWords;
}

TEST_CASE("what was recorded is read back") {
  const auto recorder = recorder_of(8);
  recorder->set_rank({2});
  recorder->name_group({77}, "world");
  OpTicket ticket = record(*recorder, 4, false);
  ticket.path = OpPath::kSchedule;
  ticket.algorithm = "halving_doubling";
  // A loss met the op: it ran again in a later view, and what is recorded of it is of that view.
  recorder->set_path(ticket, {6});
  const std::vector<Rank> waited = {{5}, {300}};
  recorder->set_waited(ticket.number, waited);
  health::FlightLog log = read(recorder->snapshot());
  CHECK(log.pid == static_cast<std::uint32_t>(::getpid()));
  CHECK(log.rank == Rank{2});
  CHECK(log.member == MemberId{0x1234});
  CHECK(log.host == "a host");
  CHECK(log.wall_offset == std::chrono::seconds(9));
  CHECK(log.ops == 1);
  REQUIRE(log.groups.size() == 1);
  CHECK(log.groups[0] == std::pair(CommId{77}, std::string("world")));
  REQUIRE(log.entries.size() == 1);
  const health::FlightEntry& e = log.entries[0];
  CHECK(e.number == 1);
  CHECK(e.group == CommId{77});
  CHECK(e.sequence == OpSeq{4});
  CHECK(e.epoch == Epoch{6});
  CHECK(e.collective == Collective::kReduce);
  CHECK(e.dtype == DType::kBF16);
  CHECK(e.op == ReduceOp::kMax);
  CHECK(e.path == OpPath::kSchedule);
  CHECK(e.algorithm == "halving_doubling");
  CHECK(e.bytes == 104);
  CHECK(e.rank == Rank{1});
  CHECK(e.other == Rank{3});
  CHECK(e.started == Instant{Duration(1004)});
  CHECK(e.state == health::OpState::kStarted);
  CHECK(e.waited == waited);
  recorder->end(ticket.number, Code::kTimeout, true, {Duration(5000)});
  log = read(recorder->snapshot());
  CHECK(log.entries[0].state == health::OpState::kEnded);
  CHECK(log.entries[0].code == Code::kTimeout);
  CHECK(log.entries[0].repaired);
  CHECK(log.entries[0].ended == Instant{Duration(5000)});
  CHECK(log.entries[0].waited == waited);
}

TEST_CASE("the ring keeps the last ops, in order, and forgets the end of one that it dropped") {
  const auto recorder = recorder_of(4);
  const OpTicket first = record(*recorder, 0, false);
  for (std::uint32_t i = 1; i < 11; ++i) record(*recorder, i);
  recorder->end(first.number, Code::kTimeout, false, {Duration(1)});
  recorder->set_path(first, {5});
  const health::FlightLog log = read(recorder->snapshot());
  CHECK(log.ops == 11);
  REQUIRE(log.entries.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(log.entries[i].number == 8 + i);
    CHECK(log.entries[i].sequence.value == 7 + i);
    CHECK(log.entries[i].code == Code::kOk);
  }
}

TEST_CASE("more peers and longer names than there is room for are cut") {
  const auto recorder = recorder_of(2);
  for (std::uint64_t g = 1; g <= health::kFlightGroups + 5; ++g) {
    recorder->name_group({g}, std::string(100, 'x'));
  }
  const OpTicket ticket = record(*recorder, 0, false);
  std::vector<Rank> many;
  for (int r = 0; r < 20; ++r) many.push_back({r});
  recorder->set_waited(ticket.number, many);
  const health::FlightLog log = read(recorder->snapshot());
  CHECK(log.groups.size() == health::kFlightGroups);
  CHECK(log.groups[0].second == std::string(health::kFlightNameBytes, 'x'));
  CHECK(log.entries[0].waited.size() == health::kFlightWaited);
}

TEST_CASE("a record outlives kill -9 of its writer") {
  const std::string folder = folder_of_this_test();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = recorder_of(16, folder);
    for (std::uint32_t i = 0; i < 20; ++i) record(*recorder, i, i != 19);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const auto file = std::filesystem::directory_iterator(folder)->path().string();
  CHECK(file.find("holdfast-" + std::to_string(child) + "-0000000000001234.flight") !=
        std::string::npos);
  const health::FlightLog log = read(read_file(file));
  std::filesystem::remove_all(folder);
  CHECK(log.pid == static_cast<std::uint32_t>(child));
  CHECK(log.entries.size() == 16);
  CHECK(log.entries.back().state == health::OpState::kStarted);
  CHECK(log.torn + log.damaged == 0);
}

TEST_CASE("a folder that is not there is named") {
  health::FlightSettings settings;
  settings.folder = "/nowhere/at/all";
  const auto recorder = health::FlightRecorder::create(settings);
  REQUIRE_FALSE(recorder.is_ok());
  CHECK(recorder.status().code() == Code::kSystem);
  CHECK(recorder.status().message().find("/nowhere/at/all") != std::string::npos);
  CHECK(recorder.status().message().find("flight_dir") != std::string::npos);
}

TEST_CASE("torn and damaged entries are counted, and the others read") {
  const auto recorder = recorder_of(8);
  for (std::uint32_t i = 0; i < 8; ++i) record(*recorder, i);
  Bytes bytes = recorder->snapshot();
  set_word(bytes, entry_at(0) + health::flight::kStamp, 7);         // its writer died in the middle
  set_word(bytes, entry_at(1) + health::flight::kStampAgain, 100);  // changed while it was read
  set_word(bytes, entry_at(2) + health::flight::kKind, ~std::uint64_t{0});
  set_word(bytes, entry_at(3) + health::flight::kNumber, 3);  // belongs elsewhere
  const health::FlightLog log = read(bytes);
  CHECK(log.torn == 2);
  CHECK(log.damaged == 2);
  CHECK(log.entries.size() == 4);
}

TEST_CASE("a record that was cut anywhere is read as far as it goes, or refused") {
  const auto recorder = recorder_of(4);
  for (std::uint32_t i = 0; i < 4; ++i) record(*recorder, i);
  const Bytes bytes = recorder->snapshot();
  for (std::size_t size = 0; size < bytes.size(); size += 61) {
    const auto log = health::read_flight(std::span(bytes).first(size));
    if (size < health::flight::kHeaderWords * 8) {
      CHECK(log.status().code() == Code::kProtocolError);
    } else {
      REQUIRE(log.is_ok());
      CHECK(log.value().truncated);
      const std::size_t whole =
          size / 8 < health::flight::kFrontWords
              ? 0
              : (size / 8 - health::flight::kFrontWords) / health::flight::kEntryWords;
      CHECK(log.value().entries.size() == whole);
    }
  }
}

TEST_CASE("an entry names the call of the program, and the longest name is whole") {
  const auto recorder = recorder_of(4);
  health::CallerNames names;
  bool is_new = false;
  const std::string copy = "MPI_Allreduce";
  CHECK(names.number_of("MPI_Allreduce", &is_new) == 1);
  CHECK(is_new);
  // Another text that says the same.
  CHECK(names.number_of(copy.c_str(), &is_new) == 1);
  CHECK(!is_new);
  CHECK(names.name_of(2) == nullptr);
  const char* const longest = "MPI_Neighbor_alltoallw_init_c";
  const std::uint8_t number = names.number_of(longest, &is_new);
  CHECK(is_new);
  CHECK(std::string(names.name_of(number)) == longest);
  recorder->name_caller(number, longest);
  const OpRequest request = a_request();
  OpTicket ticket;
  ticket.caller = number;
  recorder->begin({{77}, {41}, {5}, {1}, request}, ticket);
  record(*recorder, 42);
  const health::FlightLog log = read(recorder->snapshot());
  REQUIRE(log.entries.size() == 2);
  CHECK(log.entries[0].caller == longest);
  CHECK(log.entries[0].sequence == OpSeq{41});
  CHECK(log.entries[1].caller.empty());
  CHECK(health::flight_json(log).find(",\"caller\":\"MPI_Neighbor") != std::string::npos);
  // More names than there are numbers have none.
  std::vector<std::string> more;
  for (int i = 0; i < 200; ++i) more.push_back("call " + std::to_string(i));
  for (const std::string& name : more) names.number_of(name.c_str(), &is_new);
  CHECK(names.number_of("one too many", &is_new) == 0);
  Bytes bytes = recorder->snapshot();
  set_word(bytes, entry_at(0) + health::flight::kPlace, std::uint64_t{200} << 56);
  CHECK(read(bytes).damaged == 1);
}

TEST_CASE("what is no flight record, or one of another version, is refused with the reason") {
  Bytes bytes = recorder_of(4)->snapshot();
  set_word(bytes, health::flight::kVersionAt,
           health::flight::low_high(health::kFlightVersion + 1, 4));
  CHECK(health::read_flight(bytes).status().message().find("version 3") != std::string::npos);
  set_word(bytes, health::flight::kVersionAt, health::flight::low_high(health::kFlightVersion, 0));
  CHECK(health::read_flight(bytes).status().code() == Code::kProtocolError);
  set_word(bytes, health::flight::kMagicAt, 1);
  CHECK(health::read_flight(bytes).status().message().find("HLDFGHT1") != std::string::npos);
}

TEST_CASE("a snapshot taken while ops run has no mixed entry") {
  const auto recorder = recorder_of(16);
  std::atomic<bool> stop{false};
  std::jthread writer([&] {
    for (std::uint32_t i = 0; !stop.load(std::memory_order_relaxed); ++i) record(*recorder, i);
  });
  for (int look = 0; look < 500; ++look) {
    const health::FlightLog log = read(recorder->snapshot());
    CHECK(log.damaged == 0);
    for (const health::FlightEntry& e : log.entries) {
      REQUIRE(e.bytes == 100 + e.sequence.value);
      REQUIRE(e.number == e.sequence.value + 1);
      if (e.state == health::OpState::kEnded) {
        REQUIRE(e.ended.since_origin.count() == 2000 + e.sequence.value);
      }
    }
  }
  stop = true;
}

TEST_CASE("its json has every field, and escapes what came from outside") {
  const auto recorder = recorder_of(2);
  recorder->name_group({77}, "a \"group\"\\\xff");
  record(*recorder, 6);
  const std::string text = health::flight_json(read(recorder->snapshot()));
  for (const auto* part :
       {"\"member\":\"0000000000001234\"", "\"collective\":\"reduce\"", "\"dtype\":\"bf16\"",
        "\"path\":\"flat\"", "\"ended_ns\":2006", "\"state\":\"ended\"", "\"waited_for\":[]",
        "\"000000000000004d\":\"a \\\"group\\\"\\\\\\ufffd\""}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " in ", text);
  }
}

}  // namespace
}  // namespace holdfast::comm
