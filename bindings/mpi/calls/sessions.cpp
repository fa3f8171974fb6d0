// Sessions: MPI-4.1, 11.3, and communicators of groups: 7.4.2 and 7.6.2.
#include <algorithm>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "mpi/calls.h"
#include "mpi/calls/checks.h"
#include "mpi/calls/made.h"
#include "mpi/comms/comm.h"
#include "mpi/comms/make_comm.h"
#include "mpi/core/info.h"
#include "mpi/core/process.h"
#include "mpi/core/session.h"
#include "mpi/traffic/buffered.h"

namespace holdfast::mpi {

Session::~Session() { process().registry.drop(errhandler); }

namespace {

// The sets of processes that every session knows.
constexpr const char* kSets[] = {"mpi://WORLD", "mpi://SELF"};
constexpr int kWorldSet = 0;
constexpr int kNoSet = -1;

// Scheme and authority of a URI are the same in any case (RFC 3986, 6.2.2.1).
int set_of(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [&](std::string_view set) {
    return std::equal(set.begin(), set.end(), name.begin(), name.end(),
                      [&](char a, char b) { return lower(a) == lower(b); });
  };
  const auto* at = std::find_if(std::begin(kSets), std::end(kSets), same);
  return at == std::end(kSets) ? kNoSet : static_cast<int>(at - std::begin(kSets));
}

int refuse_set(Call& call, std::string_view name) {
  return call.fail(kErrArg, "pset_name is \"" + std::string(name) +
                                "\", accepted are \"mpi://WORLD\" and \"mpi://SELF\"");
}

// The first session of a program without MPI_Init begins its part in the job.
int begin_process(Call& call) {
  if (process().is_running()) return kSuccess;
  const int code = process().begin(call, kThreadMultiple);
  if (code == kSuccess) process().sessions_only.store(true, std::memory_order_release);
  return code;
}

int check_tag(Call& call, std::string_view tag) {
  if (tag.data() != nullptr) return kSuccess;
  return call.fail(kErrArg, "stringtag is a null pointer, accepted are texts");
}

// Messages of calls with other texts are told apart by it.
int tag_of(std::string_view text) {
  Fnv1a32 hash;
  hash.mix(text);
  return static_cast<int>(hash.value() & static_cast<std::uint32_t>(kMostTag));
}

// Hints for a communicator are kept as they were given.
std::shared_ptr<Info> hints_of(const Info* info) {
  if (info == nullptr) return nullptr;
  return std::make_shared<Info>(info->entries());
}

}  // namespace

namespace body {

int Session_init(Call& call, Info* info, Errhandler* errhandler, Session*& session) {
  if (errhandler->action == Errhandler::Action::kUser && errhandler->of != Kind::kSession) {
    return call.fail(kErrErrhandler,
                     "errhandler is one of communicators, accepted are those of "
                     "sessions and those that MPI predefines");
  }
  const int code = begin_process(call);
  if (code != kSuccess) return code;
  auto* made = process().registry.make<Session>();
  if (made == nullptr) return give_made<Session>(call, nullptr, "sessions", session);
  made->errhandler = Registry::use(errhandler);
  if (info != nullptr) made->hints = info->entries();
  session = made;
  return kSuccess;
}

int Session_finalize(Call& call, Session*& session) {
  if (session->buffer != nullptr) session->buffer->flush();
  process().registry.take_back(session);
  session = nullptr;
  const bool last = process().registry.count(Kind::kSession) == 0;
  if (!last || !process().sessions_only.load(std::memory_order_acquire)) return kSuccess;
  return process().end(call);
}

int Session_get_info(Call& call, Session* session, Info*& info_used) {
  std::vector<InfoEntry> entries = session->hints;
  std::erase_if(entries, [](const InfoEntry& entry) { return entry.key == "thread_level"; });
  // All levels are served alike.
  entries.push_back({"thread_level", "MPI_THREAD_MULTIPLE"});
  return give_made(call, process().registry.make<Info>(std::move(entries)), "infos", info_used);
}

int Session_get_num_psets(Call&, Session*, Info*, int& npset_names) {
  npset_names = static_cast<int>(std::size(kSets));
  return kSuccess;
}

int Session_get_nth_pset(Call& call, Session*, Info*, int n, const TextOut& pset_name) {
  if (n < 0 || n >= static_cast<int>(std::size(kSets))) {
    return call.fail(kErrArg, "n is " + std::to_string(n) + ", accepted are 0 to " +
                                  std::to_string(std::size(kSets) - 1));
  }
  pset_name.set(kSets[n]);
  return kSuccess;
}

int Session_get_pset_info(Call& call, Session*, std::string_view pset_name, Info*& info) {
  const int set = set_of(pset_name);
  if (set == kNoSet) return refuse_set(call, pset_name);
  const int size = set == kWorldSet ? process().world->size() : 1;
  std::vector<InfoEntry> entries{{"mpi_size", std::to_string(size)}};
  return give_made(call, process().registry.make<Info>(std::move(entries)), "infos", info);
}

int Group_from_session_pset(Call& call, Session*, std::string_view pset_name, Group*& newgroup) {
  const int set = set_of(pset_name);
  if (set == kNoSet) return refuse_set(call, pset_name);
  const Comm& comm = set == kWorldSet ? *process().world : *process().self;
  newgroup = process().registry.hand_out(comm.local);
  return kSuccess;
}

int Comm_create_from_group(Call& call, Group* group, std::string_view stringtag, Info* info,
                           Errhandler* errhandler, Comm*& newcomm) {
  if (const int code = check_tag(call, stringtag); code != kSuccess) return code;
  newcomm = nullptr;
  if (group->size() == 0) return kSuccess;
  if (group->rank_of(process().world->rank) == kUndefined) {
    return call.fail(kErrGroup, "group has not this process, rank " +
                                    std::to_string(process().world->rank) +
                                    " of the world; accepted are groups that have it");
  }
  Comm* made = nullptr;
  const int code = Comm_create_group(call, process().world, group, tag_of(stringtag), made);
  if (code != kSuccess) return code;
  if (errhandler != made->errhandler) {
    process().registry.drop(made->errhandler);
    made->errhandler = Registry::use(errhandler);
  }
  made->hints = hints_of(info);
  newcomm = made;
  return kSuccess;
}

int Intercomm_create_from_groups(Call& call, Group* local_group, int local_leader,
                                 Group* remote_group, int remote_leader, std::string_view stringtag,
                                 Info* info, Errhandler* errhandler, Comm*& newintercomm) {
  if (remote_leader < 0 || remote_leader >= remote_group->size()) {
    return call.fail(kErrRank, "remote_leader is " + std::to_string(remote_leader) +
                                   ", accepted are 0 to " +
                                   std::to_string(remote_group->size() - 1));
  }
  Comm* local = nullptr;
  int code = Comm_create_from_group(call, local_group, stringtag, info, errhandler, local);
  if (code != kSuccess || local == nullptr) return code;
  code = Intercomm_create(call, local, local_leader, process().world,
                          remote_group->process(remote_leader), tag_of(stringtag), newintercomm);
  if (code == kSuccess) newintercomm->hints = hints_of(info);
  close_comm(local);
  return code;
}

}  // namespace body
}  // namespace holdfast::mpi
