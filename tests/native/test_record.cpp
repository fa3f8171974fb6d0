// A coordinator's record: on a disk and in a store.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "memory_store.h"
#include "runtime/coordinator/record_file.h"
#include "runtime/coordinator/record_store.h"
#include "runtime/coordinator/record_text.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;

const ft::WorldRecord kFirst{{7}, {1}, {{1}, {2}}};
const ft::WorldRecord kSecond{{7}, {2}, {{2}}};

// A directory of its own, which goes with it.
class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file() const { return (path_ / "record").string(); }

 private:
  fs::path path_ = fs::temp_directory_path() / ("holdfast-record-" + std::to_string(::getpid()));
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::unique_ptr<ft::Record> open(const std::string& path) {
  auto record = open_record_file(path);
  REQUIRE_MESSAGE(record.is_ok(), record.status().message());
  return std::move(record).value();
}

std::string error_of(const std::string& path) {
  const auto record = open_record_file(path);
  return record.is_ok() ? "" : record.status().message();
}

void change_step_by_step(ft::Record& record) {
  CHECK(record.load("run").value() == std::nullopt);
  CHECK(record.compare_and_set("run", std::nullopt, kFirst).value());
  CHECK_FALSE(record.compare_and_set("run", std::nullopt, kSecond).value());
  CHECK(record.load("run").value() == kFirst);
  CHECK(record.compare_and_set("run", kFirst, kSecond).value());
  CHECK(record.load("run").value() == kSecond);
  CHECK(record.compare_and_set("run", kSecond, std::nullopt).value());
  CHECK(record.load("run").value() == std::nullopt);
  CHECK(record.compare_and_set("run", std::nullopt, kFirst).value());
}

TEST_CASE("a record file is there for the next life, whatever the names") {
  const Folder folder;
  const std::string name = "job one/\xc3\xa4\n%20\x01";
  {
    const auto record = open(folder.file());
    change_step_by_step(*record);
    CHECK(record->compare_and_set(name, std::nullopt, kSecond).value());
  }
  const auto record = open(folder.file());
  CHECK(record->load("run").value() == kFirst);
  CHECK(record->load(name).value() == kSecond);
  CHECK(record->load("job").value() == std::nullopt);
}

TEST_CASE("two coordinators do not share a record file, one after the other may have it") {
  const Folder folder;
  {
    const auto record = open(folder.file());
    CHECK(error_of(folder.file()).find("belongs to another coordinator") != std::string::npos);
  }
  CHECK(error_of(folder.file()) == "");
}

TEST_CASE("a record that is damaged, of a later format, or out of reach is an error") {
  const Folder folder;
  {
    const auto record = open(folder.file());
    CHECK(record->compare_and_set("run", std::nullopt, kFirst).value());
  }
  const std::string sound = read(folder.file());
  for (std::size_t i = 0; i < sound.size(); ++i) {
    std::string damaged = sound;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CHECK_FALSE(parse_records(damaged).is_ok());
    CHECK_FALSE(parse_records(sound.substr(0, i)).is_ok());
  }
  write(folder.file(), sound.substr(0, sound.size() / 2));
  CHECK(error_of(folder.file()).find("checksum is wrong; accepted") != std::string::npos);
  write(folder.file(), "");
  CHECK(error_of(folder.file()).find("line 1 is damaged") != std::string::npos);
  write(folder.file(), "holdfast record 2 whatever\n");
  CHECK(error_of(folder.file()).find("format is 2") != std::string::npos);
  CHECK(read(folder.file()) == "holdfast record 2 whatever\n");
  CHECK(error_of("/proc/none/record").find("cannot write beside it") != std::string::npos);
  // A directory in its place.
  fs::create_directories(folder.file() + "2");
  CHECK(error_of(folder.file() + "2").find("is no regular file") != std::string::npos);
}

TEST_CASE("what could not be written was not decided") {
  const Folder folder;
  const auto record = open(folder.file());
  CHECK(record->compare_and_set("run", std::nullopt, kFirst).value());
  // In the way of the file that is written first.
  fs::create_directories(folder.file() + ".new");
  const auto failed = record->compare_and_set("run", kFirst, kSecond);
  CHECK_FALSE(failed.is_ok());
  CHECK(record->load("run").value() == kFirst);
  fs::remove(folder.file() + ".new");
  CHECK(record->compare_and_set("run", kFirst, kSecond).value());
}

TEST_CASE("a record file has a limit, and lets go of what has not changed for longest") {
  const Folder folder;
  Records full;
  for (std::size_t i = 0; i < kMaxRecords; ++i) full["old " + std::to_string(i)] = kFirst;
  write(folder.file(), records_text(full));
  const auto record = open(folder.file());
  CHECK(record->compare_and_set("new", std::nullopt, kFirst).value());
  CHECK(record->compare_and_set("newer", std::nullopt, kFirst).value());
  CHECK(parse_records(read(folder.file())).value().size() == kMaxRecords);
  CHECK(record->load("new").value() == kFirst);
}

TEST_CASE("a store keeps a record, and coordinators that share it agree") {
  testing::MemoryStore store;
  RecordStore record(store);
  change_step_by_step(record);
  RecordStore other(store);
  CHECK(other.compare_and_set("run", kFirst, kSecond).value());
  CHECK_FALSE(record.compare_and_set("run", kFirst, kSecond).value());
  CHECK(store.set("holdfast/record/run", "nonsense").is_ok());
  CHECK(record.load("run").status().message().find("not written by a coordinator") !=
        std::string::npos);
}

}  // namespace
}  // namespace holdfast::runtime
