// The choice of a snapshot: which one all go on from, situation by situation.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ft/snapshots/choice.h"

namespace holdfast::ft {
namespace {

constexpr std::uint64_t kSliceTiles = 2;

std::vector<std::uint64_t> hashes_of(SnapshotId id, int ranks) {
  std::vector<std::uint64_t> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.push_back(id.epoch * 10'000 + id.step * 100 + static_cast<std::uint64_t>(rank));
  }
  return parts;
}

// Four ranks on four hosts, one group.
PartReport part(int rank, SnapshotId id, int parity = 1) {
  PartReport one;
  one.holder = rank;
  one.id = id;
  one.committed = true;
  one.rank = rank;
  one.group = {0, 1, 2, 3};
  one.parity = parity;
  one.slice_tiles = kSliceTiles;
  one.parts = hashes_of(id, 4);
  one.has_body = true;
  one.hashes = one.parts[static_cast<std::size_t>(rank)];
  one.rows.assign(static_cast<std::size_t>(parity), true);
  return one;
}

PartReport file(int rank, SnapshotId id) {
  PartReport one = part(rank, id);
  one.place = PartPlace::kStorage;
  return one;
}

RestoreReports all_have(std::vector<SnapshotId> ids, int parity = 1) {
  RestoreReports reports;
  for (const SnapshotId& id : ids) {
    for (int rank = 0; rank < 4; ++rank) reports.parts.push_back(part(rank, id, parity));
  }
  return reports;
}

void lose(RestoreReports& reports, int holder) {
  std::erase_if(reports.parts, [&](const PartReport& one) { return one.holder == holder; });
}

std::string kinds(const RestoreChoice& choice) {
  std::string line;
  for (const RankSource& source : choice.sources) {
    line += (line.empty() ? "" : " ") + std::string(source_kind_name(source.kind));
  }
  return line;
}

TEST_CASE("everybody's newest comes from its own keeper") {
  auto reports = all_have({{1, 7}, {1, 8}});
  reports.reached = 9;
  const auto choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 8});
  CHECK(kinds(choice) == "keeper keeper keeper keeper");
  CHECK(choice.steps_lost == 1);
  CHECK(choice.parts == hashes_of({1, 8}, 4));
}

TEST_CASE("a lost host's part is decoded") {
  auto reports = all_have({{1, 8}});
  lose(reports, 2);
  const auto choice = choose_snapshot(reports).value();
  CHECK(kinds(choice) == "keeper keeper decode keeper");
  CHECK(choice.sources[2].givers.size() == 3);
}

TEST_CASE("the order of the reports is nothing") {
  auto reports = all_have({{1, 7}, {1, 8}});
  lose(reports, 1);
  const auto before = choose_snapshot(reports).value();
  std::reverse(reports.parts.begin(), reports.parts.end());
  const auto after = choose_snapshot(reports).value();
  CHECK(before.id == after.id);
  CHECK(kinds(before) == kinds(after));
  CHECK(before.reason == after.reason);
}

TEST_CASE("never a mix: a step that one group lacks is nobody's") {
  RestoreReports reports;
  const std::vector<std::vector<int>> groups{{0, 1}, {2, 3}};
  for (const SnapshotId id : {SnapshotId{1, 7}, SnapshotId{1, 8}}) {
    for (int rank = 0; rank < 4; ++rank) {
      PartReport one = part(rank, id);
      one.group = groups[static_cast<std::size_t>(rank / 2)];
      if (id.step == 8 && rank >= 2) continue;
      reports.parts.push_back(one);
    }
  }
  const auto choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 7});
  for (const RankSource& source : choice.sources) CHECK(source.id == SnapshotId{1, 7});
}

TEST_CASE("a body with other hashes than were agreed counts as lost") {
  auto reports = all_have({{1, 8}});
  reports.parts[1].hashes ^= 1;
  CHECK(kinds(choose_snapshot(reports).value()) == "keeper decode keeper keeper");
  reports.parts[2].hashes ^= 1;
  CHECK(choose_snapshot(reports).status().message() ==
        "no state can be restored of the steps up to 8; step 8 (epoch 1): of ranks 0, 1, 2, 3, "
        "2 of 4 parts are whole, and 3 are needed; storage has no snapshot that verifies for all "
        "ranks");
}

TEST_CASE("damaged tiles are repaired one by one") {
  auto reports = all_have({{1, 8}});
  reports.parts[0].damaged = {0};
  reports.parts[1].damaged = {1};
  auto choice = choose_snapshot(reports).value();
  CHECK(kinds(choice) == "keeper keeper keeper keeper");
  CHECK(choice.sources[0].repair == std::vector<std::uint64_t>{0});
  CHECK(choice.sources[1].repair == std::vector<std::uint64_t>{1});
  CHECK(choice.sources[2].repair.empty());
  // Slice 0 of rank 0 is in codeword 3, whose column 1 rank 1 has: its tile 2, at the same place.
  reports.parts[1].damaged = {2};
  CHECK(!choose_snapshot(reports).is_ok());
}

TEST_CASE("damaged parity matters where data is lost") {
  auto reports = all_have({{1, 8}});
  reports.parts[0].damaged_rows = {{0, 1}};
  CHECK(choose_snapshot(reports).is_ok());
  lose(reports, 1);
  CHECK(!choose_snapshot(reports).is_ok());
}

TEST_CASE("what may have been committed counts if there is enough of it") {
  auto reports = all_have({{1, 7}, {1, 8}});
  for (PartReport& one : reports.parts) one.committed = one.id.step == 7;
  lose(reports, 0);
  CHECK(choose_snapshot(reports).value().id == SnapshotId{1, 8});
  std::erase_if(reports.parts, [](const auto& one) { return one.id.step == 8 && one.rank == 1; });
  CHECK(choose_snapshot(reports).value().id == SnapshotId{1, 7});
}

TEST_CASE("a newer epoch wins, whatever its steps") {
  auto reports = all_have({{1, 8}, {2, 5}});
  CHECK(choose_snapshot(reports).value().id == SnapshotId{2, 5});
}

TEST_CASE("with too many hosts lost, storage has an older step, and the loss is said") {
  auto reports = all_have({{1, 730}});
  lose(reports, 0);
  lose(reports, 1);
  for (int rank = 0; rank < 4; ++rank) reports.parts.push_back(file(rank, {1, 500}));
  auto choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 500});
  CHECK(kinds(choice) == "storage storage storage storage");
  CHECK(choice.steps_lost == 230);
  // Local disks of k hosts suffice.
  lose(reports, 0);
  CHECK(kinds(choose_snapshot(reports).value()) == "decode storage storage storage");
  lose(reports, 1);
  CHECK(choose_snapshot(reports).status().code() == Code::kPeerLost);
}

TEST_CASE("memory and disks make one snapshot up together") {
  auto reports = all_have({{1, 500}});
  lose(reports, 0);
  lose(reports, 1);
  reports.parts.push_back(file(0, {1, 500}));
  CHECK(kinds(choose_snapshot(reports).value()) == "storage decode keeper keeper");
}

TEST_CASE("live replicas are newer than any snapshot, and nobody goes back") {
  auto reports = all_have({{1, 8}});
  reports.live = {{0, {1, 9}, 4, {0, 2}}, {1, {1, 9}, 4, {1, 3}}};
  auto choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 9});
  CHECK(kinds(choice) == "live live live live");
  CHECK(choice.sources[2].holder == 0);
  reports.live.pop_back();
  choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 8});
  CHECK(choice.steps_lost == 1);
}

TEST_CASE("where there was no snapshot all begin anew") {
  RestoreReports reports;
  reports.reached = 1;
  const auto choice = choose_snapshot(reports).value();
  CHECK(choice.fresh);
  CHECK(choice.steps_lost == 1);
}

TEST_CASE("what a restore has refused is not chosen again") {
  auto reports = all_have({{1, 7}, {1, 8}});
  reports.refused = {{1, 8}};
  const auto choice = choose_snapshot(reports).value();
  CHECK(choice.id == SnapshotId{1, 7});
  CHECK(choice.steps_lost == 1);
  reports.refused.push_back({1, 7});
  CHECK(!choose_snapshot(reports).is_ok());
}

TEST_CASE("a report that makes no sense is none") {
  auto reports = all_have({{1, 8}});
  reports.parts[0].rank = 9;
  reports.parts[1].parity = 4;
  reports.parts[2].group = {0, 77};
  reports.parts[3].parts.clear();
  CHECK(!choose_snapshot(reports).is_ok() != choose_snapshot(reports).is_ok());
  RestoreReports only;
  only.parts = {reports.parts[0]};
  CHECK(choose_snapshot(only).value().fresh);
}

}  // namespace
}  // namespace holdfast::ft
