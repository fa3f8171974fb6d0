#include "runtime/coordinator/etcd/lease.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <system_error>

#include "base/json_reader.h"

namespace holdfast::runtime {
namespace {

constexpr const char* kLeaderKey = "holdfast/leader";
constexpr const char* kTermKey = "holdfast/term";
// How often who stands by looks whether there is a leader: little beside the shortest TTL, and five
// small requests a second for etcd.
constexpr Duration kLeaderLook = std::chrono::milliseconds(200);
// The lease is kept three times in its length, and ten times after a request that has failed.
constexpr int kKeepsPerTtl = 3;
constexpr int kRetriesPerTtl = 10;
constexpr std::size_t kMostShownValue = 80;

// Counts the time for which the system was asleep, as etcd's clocks do meanwhile.
Duration since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Result<std::uint64_t> next_term(const std::optional<EtcdEntry>& entry) {
  std::uint64_t term = 0;
  if (entry) {
    const std::string& text = entry->value;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, term);
    // World ids are made of it: more is no time.
    if (error != std::errc{} || at != end || term >> 36 != 0) {
      return Status{Code::kProtocolError, std::string("etcd, key ") + kTermKey + ": \"" +
                                              shown_text(text, kMostShownValue) +
                                              "\" was not written by a coordinator"};
    }
  }
  return std::max(term + 1, tenths_since_1970());
}

}  // namespace

std::uint64_t tenths_since_1970() {
  using Tenths = std::chrono::duration<std::uint64_t, std::deci>;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Tenths>(since).count();
}

EtcdLease::EtcdLease(LeaseSettings settings)
    : settings_(std::move(settings)), client_(settings_.urls, settings_.tls) {}

EtcdLease::~EtcdLease() { close(); }

Result<bool> EtcdLease::acquire(Duration patience) {
  stop_keeping();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto leads = try_once();
    if (!leads.is_ok() || leads.value()) return leads;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    std::unique_lock lock(mutex_);
    changes_.wait_until(
        lock, std::min<std::chrono::steady_clock::time_point>(deadline, now + kLeaderLook));
  }
}

Result<bool> EtcdLease::try_once() {
  if (given_ != 0) {
    // An earlier lease of its own: as long as etcd has it, nobody can lead.
    const Status gone = client_.give_back(given_, kEtcdPatience);
    if (!gone.is_ok() && gone.code() != Code::kNotMember) return gone;
    given_ = 0;
  }
  using Verb = EtcdAction::EtcdVerb;
  auto found = client_.transact({.then = {{Verb::kRead, kLeaderKey}, {Verb::kRead, kTermKey}}},
                                kEtcdPatience);
  if (!found.is_ok()) return found.status();
  if (found.value().entries.size() != 2) {
    return Status{Code::kProtocolError, "etcd answers another question"};
  }
  const auto& leader = found.value().entries[0];
  {
    const std::lock_guard lock(mutex_);
    leader_ = leader ? shown_text(leader->value, kMostShownValue) : "";
  }
  return leader ? Result<bool>(false) : stand(found.value());
}

Result<bool> EtcdLease::stand(const EtcdOutcome& found) {
  const auto& last = found.entries[1];
  const auto term = next_term(last);
  if (!term.is_ok()) return term.status();
  const Duration sent = since_boot();
  auto granted = client_.grant(settings_.ttl.count(), kEtcdPatience);
  if (!granted.is_ok()) return granted.status();
  given_ = granted.value().lease;
  using Target = EtcdCondition::EtcdTarget;
  using Verb = EtcdAction::EtcdVerb;
  EtcdTransaction election;
  election.conditions = {{Target::kCreated, kLeaderKey},
                         {Target::kModified, kTermKey, last ? last->mod_revision : 0}};
  election.then = {{Verb::kPut, kLeaderKey, settings_.who, given_},
                   {Verb::kPut, kTermKey, std::to_string(term.value())}};
  auto elected = client_.transact(election, kEtcdPatience);
  if (!elected.is_ok()) return elected.status();
  if (!elected.value().held) return false;
  const std::chrono::seconds granted_ttl{
      std::min<std::int64_t>(granted.value().ttl_s, kLongestTtl.count())};
  TRY(begin(given_, elected.value().header.revision, term.value(),
            sent + std::min(settings_.ttl, granted_ttl)));
  return true;
}

Status EtcdLease::begin(std::int64_t lease, std::int64_t created, std::uint64_t term,
                        Duration until) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = false;
    until_ = until;
    created_ = created;
    term_ = term;
    leader_ = settings_.who;
    why_lost_.clear();
  }
  try {
    keeper_ = std::thread([this, lease] {
      // Signals are for the program's own threads, so this one blocks all.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      keep(lease);
    });
  } catch (const std::system_error& error) {
    return {Code::kSystem, std::string("cannot start a thread: ") + error.what()};
  }
  return Status::ok();
}

// Keeps the lease until it is lost or given back.
void EtcdLease::keep(std::int64_t lease) {
  EtcdClient client = client_;
  std::string error;
  Duration pause = Duration(settings_.ttl) / kKeepsPerTtl;
  while (pause > Duration{}) {
    {
      std::unique_lock lock(mutex_);
      const auto over = [&] { return stop_ || until_ == Duration{}; };
      if (changes_.wait_for(lock, std::min(pause, until_ - since_boot()), over)) return;
    }
    pause = keep_once(client, lease, error);
  }
}

// Returns after how long to keep it again; zero: it is lost.
Duration EtcdLease::keep_once(EtcdClient& client, std::int64_t lease, std::string& error) {
  const Duration sent = since_boot();
  const Duration rest = left();
  if (rest <= Duration{}) {
    lose("its lease has ended" + (error.empty() ? "" : "; " + error));
    return {};
  }
  const Duration ttl = settings_.ttl;
  auto kept = client.keep(lease, std::min({rest, kEtcdPatience, ttl / kKeepsPerTtl}));
  if (kept.is_ok()) {
    const std::chrono::seconds granted{
        std::min<std::int64_t>(kept.value().ttl_s, kLongestTtl.count())};
    error.clear();
    const std::lock_guard lock(mutex_);
    // Not if it is known to be lost.
    if (until_ != Duration{}) until_ = std::max(until_, sent + std::min<Duration>(ttl, granted));
    return ttl / kKeepsPerTtl;
  }
  if (kept.status().code() == Code::kNotMember) {
    lose(kept.status().message());
    return {};
  }
  error = kept.status().message();
  return ttl / kRetriesPerTtl;
}

void EtcdLease::stop_keeping() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    until_ = {};
  }
  changes_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

void EtcdLease::close() {
  stop_keeping();
  // Without an answer the lease ends by itself.
  if (given_ != 0) [[maybe_unused]]
    const Status gone = client_.give_back(given_, kEtcdPatience);
  given_ = 0;
}

Duration EtcdLease::left() const {
  const std::lock_guard lock(mutex_);
  return std::max(until_ - since_boot(), Duration{});
}

bool EtcdLease::wait_lost(Duration patience) {
  std::unique_lock lock(mutex_);
  changes_.wait_for(lock, patience, [&] { return until_ <= since_boot(); });
  return until_ <= since_boot();
}

void EtcdLease::lose(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (why_lost_.empty()) why_lost_ = why;
    until_ = {};
  }
  changes_.notify_all();
}

std::string EtcdLease::why_lost() const {
  const std::lock_guard lock(mutex_);
  return why_lost_.empty() ? "its lease has ended" : why_lost_;
}

std::string EtcdLease::leader() const {
  const std::lock_guard lock(mutex_);
  return leader_;
}

std::uint64_t EtcdLease::term() const {
  const std::lock_guard lock(mutex_);
  return term_;
}

EtcdCondition EtcdLease::condition() const {
  const std::lock_guard lock(mutex_);
  return {EtcdCondition::EtcdTarget::kCreated, kLeaderKey, created_, {}};
}

EtcdClient EtcdLease::client() const { return client_; }

}  // namespace holdfast::runtime
