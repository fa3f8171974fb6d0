#include "runtime/coordinator/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/forks.h"
#include "runtime/coordinator/record_text.h"

namespace holdfast::runtime {
namespace {

constexpr mode_t kMode = 0644;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close_unforked(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

int open_file(const std::string& path, int flags) {
  return open_unforked([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kMode); });
}

Status system_error(const std::string& path, const char* what) {
  return {Code::kConfigError,
          "record " + path + ": cannot " + what + ": " + std::strerror(errno) +
              "; accepted: a file that can be written, on a disk that outlives the coordinator"};
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

class RecordFile final : public ft::Record {
 public:
  explicit RecordFile(std::string path)
      : path_(std::move(path)), lock_(open_file(path_ + ".lock", O_RDWR | O_CREAT)) {}

  Status open() {
    TRY(take_lock());
    std::error_code none;
    const auto kind = std::filesystem::status(path_, none).type();
    if (kind == std::filesystem::file_type::not_found) return write(records_);
    if (kind != std::filesystem::file_type::regular) {
      return {Code::kConfigError, "record " + path_ + " is no regular file"};
    }
    std::ifstream file(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad() || !file.is_open()) return system_error(path_, "read it");
    auto records = parse_records(text);
    if (!records.is_ok()) {
      const Code code = records.status().code();
      return {code == Code::kProtocolError ? Code::kConfigError : code,
              "record " + path_ + ": " + records.status().message() +
                  "; accepted: a file of this coordinator, or none: without one it decides with "
                  "more than half of the members only, until it has decided a view"};
    }
    records_ = std::move(records).value();
    // Writes the file now, so that an error shows at the start and not at the first loss.
    return write(records_);
  }

  Result<std::optional<ft::WorldRecord>> load(const std::string& name) override {
    const auto at = records_.find(name);
    return at == records_.end() ? std::nullopt : std::optional(at->second);
  }

  Result<bool> compare_and_set(const std::string& name,
                               const std::optional<ft::WorldRecord>& expected,
                               const std::optional<ft::WorldRecord>& next) override {
    if (load(name).value() != expected) return false;
    Records changed = records_;
    changed.erase(name);
    if (next) {
      if (changed.size() >= kMaxRecords) drop_oldest(changed);
      changed.emplace(name, *next);
    }
    TRY(write(changed));
    records_ = std::move(changed);
    std::erase(order_, name);
    if (next) order_.push_back(name);
    return true;
  }

 private:
  Status take_lock() {
    if (lock_.number() < 0) return system_error(path_, "write beside it");
    if (::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0) return Status::ok();
    if (errno != EWOULDBLOCK) return system_error(path_, "lock it");
    return {Code::kConfigError,
            "record " + path_ +
                " belongs to another coordinator that runs; accepted: a file for "
                "each, or a store that they share"};
  }

  // Records that this life of the coordinator has not written are older than those that it has.
  void drop_oldest(Records& records) const {
    for (const auto& [name, record] : records) {
      if (std::find(order_.begin(), order_.end(), name) != order_.end()) continue;
      records.erase(name);
      return;
    }
    records.erase(order_.front());
  }

  // The file has the old or the new content, whole, whenever the machine stops.
  Status write(const Records& records) const {
    const std::string fresh = path_ + ".new";
    {
      const Descriptor file(open_file(fresh, O_WRONLY | O_CREAT | O_TRUNC));
      const bool written = file.number() >= 0 && write_all(file.number(), records_text(records)) &&
                           ::fsync(file.number()) == 0;
      if (!written) return system_error(path_, "write it");
    }
    if (::rename(fresh.c_str(), path_.c_str()) != 0) return system_error(path_, "replace it");
    const Descriptor folder(open_file(folder_of(path_), O_RDONLY | O_DIRECTORY));
    if (folder.number() < 0 || ::fsync(folder.number()) != 0) {
      return system_error(path_, "flush its directory");
    }
    return Status::ok();
  }

  std::string path_;
  Descriptor lock_;
  Records records_;
  std::vector<std::string> order_;  // names of the worlds that this life has written, oldest first
};

}  // namespace

Result<std::unique_ptr<ft::Record>> open_record_file(const std::string& path) {
  auto file = std::make_unique<RecordFile>(path);
  TRY(file->open());
  return std::unique_ptr<ft::Record>(std::move(file));
}

}  // namespace holdfast::runtime
