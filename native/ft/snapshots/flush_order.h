// Flush order: what is done after what when a snapshot is written to storage, so that whatever cuts
// it off leaves an older one that verifies.
//
// A manifest is there only once everything that it names is on the disk, and the folders' entries,
// too. Older snapshots are removed once the newer one has verified at all hosts, which the keepers
// agree on; so whoever fails takes part in that op as well.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/planted.h"
#include "ft/snapshots/snapshot_id.h"

namespace holdfast::ft {

enum class FlushDo : std::uint8_t {
  kWriteFiles,     // body and parity, into a folder of their own
  kSyncFiles,      // past the page cache
  kSyncFolder,     // and the folder that names them, and its parent
  kWriteManifest,  // under another name
  kSyncManifest,
  kRenameManifest,
  kSyncRename,  // the folder once more
  kVerify,      // what is there is read and compared
  kRemoveOwn,   // after a failure: what was written
  kAgree,       // an op of all keepers: whether all have verified
  kRemoveOlder,
  kDone,
  kFailed,
};
inline constexpr int kFlushDos = 13;
inline const char* flush_do_name(FlushDo what) {
  constexpr std::array<const char*, kFlushDos> kNames = {
      "write_files",     "sync_files",  "sync_folder", "write_manifest", "sync_manifest",
      "rename_manifest", "sync_rename", "verify",      "remove_own",     "agree",
      "remove_older",    "done",        "failed"};
  return kNames.at(static_cast<std::size_t>(what));
}

class FlushOrder {
 public:
  explicit FlushOrder(SnapshotId id) : id_(id) {
    if (is_planted(Planted::kRemoveFirst)) what_ = FlushDo::kRemoveOlder;
  }

  const SnapshotId& id() const { return id_; }
  FlushDo what() const { return what_; }
  // Whether this host's files verify: what it says in the op.
  bool is_well() const { return why_.empty(); }
  const std::string& why() const { return why_; }

  // What `what()` said has been done, or has failed, and why.
  FlushDo done(std::string why = "") {
    if (is_over()) return what_;
    if (!why.empty() && why_.empty()) why_ = std::move(why);
    what_ = next();
    return what_;
  }
  bool is_over() const { return what_ == FlushDo::kDone || what_ == FlushDo::kFailed; }

 private:
  FlushDo next() const {
    const bool planted_remove = is_planted(Planted::kRemoveFirst);
    const bool planted_manifest = is_planted(Planted::kManifestFirst);
    switch (what_) {
      case FlushDo::kAgree:
        if (!is_well()) return FlushDo::kFailed;
        return planted_remove ? FlushDo::kDone : FlushDo::kRemoveOlder;
      case FlushDo::kRemoveOwn: return FlushDo::kAgree;
      case FlushDo::kRemoveOlder:
        if (planted_remove) return FlushDo::kWriteFiles;
        return planted_manifest ? FlushDo::kSyncFiles : FlushDo::kDone;
      case FlushDo::kDone:
      case FlushDo::kFailed: return what_;
      default: break;
    }
    if (!is_well()) return FlushDo::kRemoveOwn;
    if (what_ == FlushDo::kVerify) return FlushDo::kAgree;
    if (planted_manifest && what_ == FlushDo::kWriteFiles) return FlushDo::kWriteManifest;
    if (planted_manifest && what_ == FlushDo::kSyncFolder) return FlushDo::kDone;
    return static_cast<FlushDo>(static_cast<int>(what_) + 1);
  }

  SnapshotId id_;
  FlushDo what_ = FlushDo::kWriteFiles;
  std::string why_;
};

}  // namespace holdfast::ft
