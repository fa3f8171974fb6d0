#include "mpi/core/launched.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "c/handles.h"

namespace holdfast::mpi {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::string_view kScheme = "file://";

// Variables in which launchers say rank and size, and one that names the job, the same in all its
// ranks and in no other job of the user on these machines.
struct LauncherRow {
  const char* name;
  const char* rank;
  const char* size;
  const char* job;  // null: it needs none
};
constexpr std::array kLaunchers{
    LauncherRow{"holdfast run", "RANK", "WORLD_SIZE", nullptr},
    LauncherRow{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"},
    LauncherRow{"mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                "PMIX_NAMESPACE"},
    LauncherRow{"mpiexec of MPICH", "PMI_RANK", "PMI_SIZE", "PMI_FD"},
};

Result<int> number(const char* variable, int least) {
  const char* text = std::getenv(variable);
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > kMostRanks) {
    return holdfast::Status{Code::kConfigError, std::string(variable) + " is \"" + text +
                                                    "\"; accepted: " + std::to_string(least) +
                                                    " to " + std::to_string(kMostRanks)};
  }
  return value;
}

// Where ranks of one host meet if nobody names a place: a folder by user and job.
std::string meeting_place(const LauncherRow& row) {
  const char* job = std::getenv(row.job);
  const char* step = std::getenv("SLURM_STEP_ID");
  std::string id = job != nullptr ? job : "";
  if (step != nullptr) id += std::string("-") + step;
  // MPICH's ranks of a host have one parent; what it passes them is a descriptor of each.
  if (std::strcmp(row.job, "PMI_FD") == 0) id = "ppid-" + std::to_string(::getppid());
  for (char& c : id) {
    if (std::strchr("/ \t\n", c) != nullptr) c = '_';
  }
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/holdfast-mpi-" +
         std::to_string(::getuid()) + "-" + id;
}

const LauncherRow* find_launcher() {
  for (const LauncherRow& row : kLaunchers) {
    if (std::getenv(row.rank) != nullptr && std::getenv(row.size) != nullptr) return &row;
  }
  return nullptr;
}

// The only rank needs no place to meet.
class OwnStore final : public Store {
 public:
  holdfast::Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    return holdfast::Status::ok();
  }
  Result<std::string> get(const std::string& key, Duration) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    return holdfast::Status{Code::kTimeout, "key " + key + " is not set"};
  }

 private:
  std::mutex mutex_;  // guards values_
  std::map<std::string, std::string> values_;
};

// Says in its environment which rank a process has become, for the programs that it starts: they
// inherit what the launcher told it.
constexpr const char* kTaken = "HOLDFAST_MPI_TAKEN";

std::string identity_of(const Launched& launched) {
  return std::to_string(launched.rank) + " of " + launched.store;
}

// Who is started by a rank has been launched by nobody, and is alone in its world.
Launched unless_taken(Launched launched) {
  const char* taken = std::getenv(kTaken);
  return taken != nullptr && identity_of(launched) == taken ? Launched{} : launched;
}

}  // namespace

void take_rank(const Launched& launched) {
  if (!launched.store.empty()) ::setenv(kTaken, identity_of(launched).c_str(), 1);
}

Result<Launched> launched_from_environment() {
  const LauncherRow* row = find_launcher();
  if (row == nullptr) return Launched{};
  auto rank = number(row->rank, 0);
  if (!rank.is_ok()) return rank.status();
  auto size = number(row->size, 1);
  if (!size.is_ok()) return size.status();
  if (rank.value() >= size.value()) {
    return holdfast::Status{Code::kConfigError, std::string(row->rank) + " is " +
                                                    std::to_string(rank.value()) + ", and " +
                                                    row->size + " " + std::to_string(size.value())};
  }
  Launched launched{rank.value(), size.value(), ""};
  const char* store = std::getenv("HOLDFAST_STORE");
  if (store != nullptr) launched.store = store;
  if (launched.size == 1 || !launched.store.empty()) return unless_taken(launched);
  if (row->job == nullptr) {
    return holdfast::Status{Code::kConfigError,
                            "RANK and WORLD_SIZE are set, and HOLDFAST_STORE is not: it names the "
                            "folder where the ranks meet, file:///DIRECTORY. `holdfast run -n 4 "
                            "program` sets all three"};
  }
  launched.store = std::string(kScheme) + meeting_place(*row);
  return unless_taken(launched);
}

Result<std::unique_ptr<Store>> open_store(const Launched& launched) {
  if (launched.store.empty()) return std::unique_ptr<Store>(std::make_unique<OwnStore>());
  if (launched.store.compare(0, kScheme.size(), kScheme) != 0) {
    return holdfast::Status{Code::kConfigError, "HOLDFAST_STORE is \"" + launched.store +
                                                    "\"; MPI programs accept file:///DIRECTORY"};
  }
  return c::open_directory(launched.store.substr(kScheme.size()));
}

}  // namespace holdfast::mpi
