// Simulated disk: files that are in the page cache until they are synced, names that are until
// their folder is. What power takes away of the rest is drawn.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "sim/random.h"
#include "sim/state/sim_part.h"

namespace holdfast::sim {

// Of a snapshot's rank: its image, or its manifest.
struct FileName {
  ft::SnapshotId id;
  int rank = 0;
  bool is_manifest = false;
  auto operator<=>(const FileName&) const = default;
};

struct SimFile {
  SimPart part;  // of a manifest: what it says of the image, whose tiles count for nothing
  bool whole = true;
  bool synced = false;
  bool named = false;  // its name will be there after a loss of power
};

class SimDisk {
 public:
  bool full = false;

  // False: there is no room; some of it is there.
  bool write(const FileName& name, const SimPart& part, Random& random) {
    SimFile& file = files_[name] = {part, true, false, false};
    if (!full) return true;
    tear(file, random);
    return false;
  }
  void sync(const FileName& name) {
    const auto at = files_.find(name);
    if (at != files_.end()) at->second.synced = true;
  }
  void sync_names() {
    for (auto& [name, file] : files_) file.named = true;
    removed_.clear();
  }
  void remove(const FileName& name) {
    const auto at = files_.find(name);
    if (at == files_.end()) return;
    removed_[name] = std::move(at->second);
    files_.erase(at);
  }
  void lose_power(Random& random) {
    for (auto& [name, file] : removed_) {
      // The removal itself may be lost.
      if (random.chance(50)) files_.emplace(name, std::move(file));
    }
    removed_.clear();
    for (auto at = files_.begin(); at != files_.end();) {
      SimFile& file = at->second;
      if (!file.named && random.chance(50)) {
        at = files_.erase(at);
        continue;
      }
      if (!file.synced && random.chance(70)) tear(file, random);
      file.named = file.synced = true;
      ++at;
    }
  }
  const std::map<FileName, SimFile>& files() const { return files_; }
  SimFile* find(const FileName& name) {
    const auto at = files_.find(name);
    return at == files_.end() ? nullptr : &at->second;
  }

 private:
  static void tear(SimFile& file, Random& random) {
    file.whole = false;
    auto& body = file.part.body;
    for (std::size_t i = random.below(body.size() + 1); i < body.size(); ++i) body[i] = kTorn;
    for (auto& row : file.part.rows) {
      for (SimParity& tile : row) tile.flipped = tile.flipped || random.chance(50);
    }
  }

  std::map<FileName, SimFile> files_;
  std::map<FileName, SimFile> removed_;
};

}  // namespace holdfast::sim
