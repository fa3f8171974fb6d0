// Snapshots for keepers: plain values in and out.
#include "state/snapshots.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ft/snapshots/choice.h"
#include "ft/snapshots/code_groups.h"
#include "ft/snapshots/code_places.h"
#include "ft/snapshots/flush_order.h"
#include "ft/snapshots/generations.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using IdPair = std::pair<std::uint32_t, std::uint64_t>;  // (epoch, step)

ft::SnapshotId id_of(const IdPair& pair) { return {pair.first, pair.second}; }
std::optional<ft::SnapshotId> id_of(const std::optional<IdPair>& pair) {
  if (!pair) return std::nullopt;
  return id_of(*pair);
}
IdPair pair_of(const ft::SnapshotId& id) { return {id.epoch, id.step}; }
std::optional<IdPair> pair_of(const std::optional<ft::SnapshotId>& id) {
  if (!id) return std::nullopt;
  return pair_of(*id);
}
Instant instant_of(double seconds) {
  return {std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds))};
}

// ([(ranks, parity)], what is said of it)
nb::tuple groups_of(const std::vector<std::string>& domains, int k, int m) {
  ft::CodePlan plan = value_or_raise(ft::code_groups(domains, {k, m}));
  nb::list groups;
  for (const ft::CodeGroup& group : plan.groups) {
    groups.append(nb::make_tuple(group.ranks, group.parity));
  }
  return nb::make_tuple(groups, plan.said);
}

// [[(is parity, slice or row)] of each codeword] of each member
std::vector<std::vector<std::pair<bool, int>>> places_of(int k, int m) {
  const ft::CodePlaces places(k, m);
  std::vector<std::vector<std::pair<bool, int>>> table;
  for (int member = 0; member < places.members(); ++member) {
    auto& row = table.emplace_back();
    for (int codeword = 0; codeword < places.members(); ++codeword) {
      const ft::CodePlace place = places.place(member, codeword);
      row.emplace_back(place.is_parity, place.index);
    }
  }
  return table;
}

nb::dict sizes_of(int k, int m, std::uint64_t tile, const std::vector<std::uint64_t>& bodies) {
  if (tile == 0 || bodies.size() != static_cast<std::size_t>(k + m)) {
    raise_if({Code::kConfigError, std::to_string(bodies.size()) + " bodies for code (" +
                                      std::to_string(k) + ", " + std::to_string(m) +
                                      "), tiles of " + std::to_string(tile) +
                                      " bytes; accepted are as many bodies as parts, and tiles "
                                      "of 1 byte or more"});
  }
  const ft::CodeSizes sizes(ft::CodePlaces(k, m), tile, bodies);
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> slices;
  std::vector<std::uint64_t> rows;
  std::vector<std::vector<std::uint64_t>> row_at;
  std::vector<std::uint64_t> parity;
  for (int member = 0; member < k + m; ++member) {
    auto& mine = slices.emplace_back();
    for (int slice = 0; slice < k; ++slice) {
      const ft::ByteSpan span = sizes.slice(member, slice);
      mine.emplace_back(span.begin, span.end);
    }
    auto& at = row_at.emplace_back();
    for (int row = 0; row < m; ++row) at.push_back(sizes.row_at(member, row));
    rows.push_back(sizes.row_bytes(member));
    parity.push_back(sizes.parity_bytes(member));
  }
  nb::dict result;
  result["slice_tiles"] = sizes.slice_tiles();
  result["slices"] = slices;        // [[(begin, end)] of each slice] of each member
  result["row_bytes"] = rows;       // of each codeword
  result["row_at"] = row_at;        // [where row i begins] in each member's parity
  result["parity_bytes"] = parity;  // of each member
  return result;
}

nb::dict dict_of(const ft::SnapshotAction& action) {
  nb::dict one;
  one["do"] = ft::snapshot_do_name(action.what);
  one["slot"] = action.slot;
  one["epoch"] = action.id.epoch;
  one["step"] = action.id.step;
  one["ok"] = action.ok;
  one["flushing"] = action.flushing;
  one["layout"] = action.part.layout;
  one["hashes"] = action.part.hashes;
  one["reason"] = action.reason;
  return one;
}

nb::list take_step(ft::Generations& self, const ft::SnapshotEvent& event, double now) {
  nb::list actions;
  for (const ft::SnapshotAction& action : self.step(event, instant_of(now))) {
    actions.append(dict_of(action));
  }
  return actions;
}

nb::list slots_of(const ft::Generations& self) {
  nb::list slots;
  for (const ft::SnapshotSlot& slot : self.slots()) {
    nb::dict one;
    one["state"] = ft::slot_state_name(slot.state);
    one["id"] = pair_of(slot.id);
    one["layout"] = slot.layout;
    one["digest"] = slot.digest;
    one["parts"] = slot.parts;
    one["readers"] = slot.readers;
    slots.append(one);
  }
  return slots;
}

nb::dict standing(const ft::Generations& self) {
  nb::dict now;
  now["epoch"] = self.epoch();
  now["reached"] = self.reached();
  now["exposed"] = self.exposed();
  now["committed"] = pair_of(self.committed());
  now["flushed"] = pair_of(self.flushed());
  now["slots"] = slots_of(self);
  // When it wants to be told that time has passed.
  now["next_at"] = nb::none();
  if (const auto at = self.next_at()) {
    now["next_at"] = std::chrono::duration<double>(at->since_origin).count();
  }
  return now;
}

using ToldRow = std::tuple<std::uint64_t, bool, std::uint64_t, std::uint64_t>;

ft::PartsGathered gathered(const std::vector<ToldRow>& told, std::vector<int> missing) {
  ft::PartsGathered event;
  for (const auto& [step, ok, layout, hashes] : told) {
    event.told.push_back({step, ok, layout, hashes});
  }
  event.missing = std::move(missing);
  return event;
}

// What happens to a snapshot that is being made.
void bind_making(nb::class_<ft::Generations>& c) {
  using ft::Generations;
  c.def(
       "__init__",
       [](Generations* self, int slots, double patience, std::uint64_t flush_every) {
         new (self) Generations({slots, instant_of(patience).since_origin, flush_every});
       },
       "slots"_a = 2, "patience_s"_a = 5.0, "flush_every"_a = 0)
      .def(
          "begun",
          [](Generations& self, std::uint32_t epoch, int rank, int ranks,
             const std::optional<IdPair>& settled, const std::optional<IdPair>& flushed,
             double now) {
            return take_step(
                self, ft::KeepersBegun{epoch, rank, ranks, id_of(settled), id_of(flushed)}, now);
          },
          "epoch"_a, "rank"_a, "ranks"_a, "settled"_a.none(), "flushed"_a.none(), "now"_a)
      .def(
          "take",
          [](Generations& self, std::uint64_t step, std::uint64_t layout, double now) {
            return take_step(self, ft::TakeAsked{step, layout}, now);
          },
          "step"_a, "layout"_a, "now"_a)
      .def(
          "captured",
          [](Generations& self, std::uint64_t step, std::uint64_t hashes, double now) {
            return take_step(self, ft::BodyCaptured{step, hashes}, now);
          },
          "step"_a, "hashes"_a, "now"_a)
      .def(
          "capture_failed",
          [](Generations& self, std::uint64_t step, const std::string& why, double now) {
            return take_step(self, ft::CaptureFailed{step, why}, now);
          },
          "step"_a, "why"_a, "now"_a)
      .def(
          "gathered",
          [](Generations& self, const std::vector<ToldRow>& told, std::vector<int> missing,
             double now) { return take_step(self, gathered(told, std::move(missing)), now); },
          "told"_a, "missing"_a, "now"_a)
      .def(
          "coded",
          [](Generations& self, std::vector<int> missing, const std::string& why, double now) {
            return take_step(self, ft::ParityMade{std::move(missing), why}, now);
          },
          "missing"_a, "why"_a, "now"_a)
      .def(
          "closed",
          [](Generations& self, std::vector<int> missing, bool all_ok, bool flushing, double now) {
            return take_step(self, ft::ClosingEnded{std::move(missing), all_ok, flushing}, now);
          },
          "missing"_a, "all_ok"_a, "flushing"_a, "now"_a)
      .def(
          "keepers_lost",
          [](Generations& self, std::vector<int> ranks, double now) {
            return take_step(self, ft::KeepersLost{std::move(ranks)}, now);
          },
          "ranks"_a, "now"_a)
      .def(
          "trainer_gone",
          [](Generations& self, bool all, double now) {
            return take_step(self, ft::TrainerGone{all}, now);
          },
          "all"_a, "now"_a);
}

// What is read, and how time passes.
void bind_reading(nb::class_<ft::Generations>& c) {
  using ft::Generations;
  c.def(
       "flush_begun",
       [](Generations& self, const IdPair& id, double now) {
         return take_step(self, ft::FlushBegun{id_of(id)}, now);
       },
       "id"_a, "now"_a)
      .def(
          "flush_ended",
          [](Generations& self, const IdPair& id, const std::string& why, double now) {
            return take_step(self, ft::FlushEnded{id_of(id), why}, now);
          },
          "id"_a, "why"_a, "now"_a)
      .def(
          "restore_begun",
          [](Generations& self, const IdPair& id, double now) {
            return take_step(self, ft::RestoreBegun{id_of(id)}, now);
          },
          "id"_a, "now"_a)
      .def(
          "restore_ended",
          [](Generations& self, const IdPair& id, double now) {
            return take_step(self, ft::RestoreEnded{id_of(id)}, now);
          },
          "id"_a, "now"_a)
      .def(
          "passed",
          [](Generations& self, double now) { return take_step(self, ft::TimePassed{}, now); },
          "now"_a);
}

void bind_generations(nb::module_& m) {
  using ft::Generations;
  nb::class_<Generations> c(m, "Generations");
  bind_making(c);
  bind_reading(c);
  c.def("standing", standing);
}

template <class T>
T field(const nb::dict& one, const char* name) {
  if (!one.contains(name)) {
    throw nb::key_error((std::string(name) + " is missing in a report").c_str());
  }
  return nb::cast<T>(one[name]);
}

ft::PartReport part_of(const nb::dict& one) {
  ft::PartReport part;
  part.holder = field<int>(one, "holder");
  const auto place = field<std::string>(one, "place");
  if (place != "memory" && place != "storage") {
    raise_if({Code::kConfigError, "place " + place + "; accepted: memory, storage"});
  }
  part.place = place == "memory" ? ft::PartPlace::kMemory : ft::PartPlace::kStorage;
  part.id = id_of(field<IdPair>(one, "id"));
  part.committed = field<bool>(one, "committed");
  part.rank = field<int>(one, "rank");
  part.group = field<std::vector<int>>(one, "group");
  part.parity = field<int>(one, "parity");
  part.slice_tiles = field<std::uint64_t>(one, "slice_tiles");
  part.parts = field<std::vector<std::uint64_t>>(one, "parts");
  part.has_body = field<bool>(one, "has_body");
  part.hashes = field<std::uint64_t>(one, "hashes");
  part.damaged = field<std::vector<std::uint64_t>>(one, "damaged");
  part.rows = field<std::vector<bool>>(one, "rows");
  part.damaged_rows = field<std::vector<std::pair<int, std::uint64_t>>>(one, "damaged_rows");
  return part;
}

nb::dict dict_of(const ft::RankSource& source) {
  nb::list givers;
  for (const ft::PartGiver& giver : source.givers) {
    const char* place = giver.place == ft::PartPlace::kMemory ? "memory" : "storage";
    givers.append(nb::make_tuple(giver.rank, giver.holder, place));
  }
  nb::dict one;
  one["rank"] = source.rank;
  one["kind"] = ft::source_kind_name(source.kind);
  one["holder"] = source.holder;
  one["repair"] = source.repair;
  one["givers"] = givers;
  return one;
}

using LiveRow = std::tuple<int, IdPair, int, std::vector<int>>;

nb::dict choose(const nb::list& parts, const std::vector<LiveRow>& live, std::uint64_t reached,
                const std::vector<IdPair>& refused) {
  ft::RestoreReports reports;
  for (const nb::handle one : parts) reports.parts.push_back(part_of(nb::cast<nb::dict>(one)));
  for (const auto& [holder, id, ranks, covers] : live) {
    reports.live.push_back({holder, id_of(id), ranks, covers});
  }
  reports.reached = reached;
  for (const IdPair& id : refused) reports.refused.push_back(id_of(id));
  const ft::RestoreChoice choice = value_or_raise(ft::choose_snapshot(reports));
  nb::list sources;
  for (const ft::RankSource& source : choice.sources) sources.append(dict_of(source));
  nb::dict result;
  result["fresh"] = choice.fresh;
  result["id"] = pair_of(choice.id);
  result["parts"] = choice.parts;
  result["sources"] = sources;
  result["steps_lost"] = choice.steps_lost;
  result["reason"] = choice.reason;
  return result;
}

}  // namespace

void bind_snapshots(nb::module_& m) {
  m.def("code_groups", groups_of, "domains"_a, "k"_a, "m"_a);
  m.def(
      "code_for_hosts",
      [](int hosts, int k, int parity) {
        const auto code = value_or_raise(ft::code_for_hosts(hosts, {k, parity}));
        return std::pair{code.data, code.parity};
      },
      "hosts"_a, "k"_a, "m"_a);
  m.def("code_places", places_of, "k"_a, "m"_a);
  m.def("code_sizes", sizes_of, "k"_a, "m"_a, "tile_bytes"_a, "bodies"_a);
  m.def(
      "snapshot_digest",
      [](const IdPair& id, const std::vector<std::uint64_t>& parts) {
        return ft::snapshot_digest(id_of(id), parts);
      },
      "id"_a, "parts"_a);
  bind_generations(m);
  m.def("choose_snapshot", choose, "parts"_a, "live"_a, "reached"_a,
        "refused"_a = std::vector<IdPair>{});
  nb::class_<ft::FlushOrder>(m, "FlushOrder")
      .def(
          "__init__",
          [](ft::FlushOrder* self, const IdPair& id) { new (self) ft::FlushOrder(id_of(id)); },
          "id"_a)
      .def_prop_ro("what",
                   [](const ft::FlushOrder& self) { return ft::flush_do_name(self.what()); })
      .def_prop_ro("why", &ft::FlushOrder::why)
      .def(
          "done",
          [](ft::FlushOrder& self, std::string why) {
            return ft::flush_do_name(self.done(std::move(why)));
          },
          "why"_a = "");
}

}  // namespace holdfast::bindings
