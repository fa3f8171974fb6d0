#include "device_comm/two_level/script.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace holdfast::device_comm {

using comm::Collective;

namespace {

std::size_t number(Rank rank) { return static_cast<std::size_t>(rank.value); }

// Where each block begins.
std::vector<std::uint64_t> begins(const std::vector<std::uint64_t>& blocks) {
  std::vector<std::uint64_t> at{0};
  for (const std::uint64_t bytes : blocks) at.push_back(at.back() + bytes);
  return at;
}

bool has(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

TwoLevelScript empty_script(const DirectShape& shape) {
  const TwoLevelSteps steps = two_level_steps(shape.collective).value_or(TwoLevelSteps{});
  const std::vector<Cut> nothing(static_cast<std::size_t>(shape.size), Cut{});
  TwoLevelScript script;
  script.exchanges.resize(steps.exchanges, {nothing, nothing});
  script.phases.resize(steps.exchanges + steps.votes);
  return script;
}

class ScriptWriter {
 public:
  ScriptWriter(const DirectShape& shape, const std::vector<int>& host_of,
               const std::vector<Rank>& ranks)
      : shape_(shape),
        plan_(two_level_plan(host_of, ranks, shape.output[0])),
        own_(shape.rank),
        host_(plan_.host_of(own_)),
        column_(plan_.column_of(own_)),
        script_(empty_script(shape)) {}

  TwoLevelScript run() {
    switch (shape_.collective) {
      case Collective::kAllReduce: all_reduce(); break;
      case Collective::kReduceScatter: reduce_scatter(); break;
      case Collective::kAllGather: all_gather(); break;
      case Collective::kBroadcast: broadcast(); break;
      default: CHECK(false);
    }
    return std::move(script_);
  }

 private:
  const HostRanks& local_ranks() const { return plan_.hosts[host_]; }
  std::size_t place_of(Rank rank) const {
    const HostRanks& ranks = plan_.hosts[plan_.host_of(rank)];
    return static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  }
  // The rank of the host that exchanges with rank `of` of another host.
  Rank partner(std::size_t host, Rank of) const {
    const HostRanks& ranks = plan_.hosts[host];
    return ranks[place_of(of) % ranks.size()];
  }

  TwoLevelPlace input(Rank rank, std::uint64_t at) const {
    return {TwoLevelSpace::kInput, rank, at};
  }
  TwoLevelPlace result(Rank rank, std::uint64_t at) const {
    return {TwoLevelSpace::kResult, rank, at};
  }
  TwoLevelPlace result(std::uint64_t at) const { return result(own_, at); }
  TwoLevelPlace parts(std::uint64_t at) const { return {TwoLevelSpace::kParts, own_, at}; }
  TwoLevelPlace host(std::uint64_t at) const { return {TwoLevelSpace::kHost, own_, at}; }
  std::vector<TwoLevelPlace> inputs_of_local_ranks(std::uint64_t at) const {
    std::vector<TwoLevelPlace> all;
    for (const Rank rank : local_ranks()) all.push_back(input(rank, at));
    return all;
  }

  std::uint64_t take_host(std::uint64_t bytes) {
    return std::exchange(script_.host_bytes, script_.host_bytes + aligned(bytes));
  }
  std::uint64_t take_parts(std::uint64_t bytes) {
    return std::exchange(script_.parts_bytes, script_.parts_bytes + aligned(bytes));
  }

  void add(std::size_t phase, TwoLevelPlace to, std::vector<TwoLevelPlace> from,
           std::uint64_t bytes, bool last = false) {
    if (bytes > 0) script_.phases[phase].push_back({to, std::move(from), bytes, last});
  }
  void send(std::size_t exchange, Rank to, std::uint64_t at, std::uint64_t bytes) {
    script_.exchanges[exchange].sent[number(to)] = {at, bytes};
  }
  void receive(std::size_t exchange, Rank from, std::uint64_t at, std::uint64_t bytes) {
    script_.exchanges[exchange].received[number(from)] = {at, bytes};
  }

  // Memory for one part per host, to be folded by host: offsets on the device, and in the host
  // memory that the parts come from; `step` bytes apart.
  struct HostParts {
    std::uint64_t device = 0;
    std::uint64_t host = 0;
    std::uint64_t step = 0;
  };
  HostParts take_all_hosts(std::uint64_t bytes) {
    const std::uint64_t step = aligned(bytes);
    return {take_parts(step * plan_.hosts.size()), take_host(step * plan_.hosts.size()), step};
  }
  void fold_all_hosts(std::size_t phase, const HostParts& from, TwoLevelPlace to,
                      std::uint64_t bytes) {
    std::vector<TwoLevelPlace> all;
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      all.push_back(parts(from.device + h * from.step));
      if (h != host_) add(phase, all.back(), {host(from.host + h * from.step)}, bytes);
    }
    add(phase, to, std::move(all), bytes, true);
  }

  void all_reduce() {
    if (column_) reduce_column(*column_);
    fetch_columns(3);
  }

  void reduce_column(std::size_t column) {
    const Cut whole = plan_.column(column);
    const Cut own = plan_.part(column, host_);
    const std::uint64_t out = take_host(whole.bytes);
    const HostParts all = take_all_hosts(own.bytes);
    const auto going = [&](const Cut& run) { return host(out + run.at - whole.at); };
    // What other hosts finish lies before and behind what this host does.
    for (const Cut run :
         {Cut{whole.at, own.at - whole.at}, Cut{own.end(), whole.end() - own.end()}}) {
      add(0, result(run.at), inputs_of_local_ranks(run.at), run.bytes);
      add(0, going(run), {result(run.at)}, run.bytes);
      add(2, result(run.at), {going(run)}, run.bytes);
    }
    add(0, parts(all.device + host_ * all.step), inputs_of_local_ranks(own.at), own.bytes);
    fold_all_hosts(1, all, result(own.at), own.bytes);
    add(1, going(own), {result(own.at)}, own.bytes);
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      if (h == host_) continue;
      const Rank other = plan_.owner(column, h);
      const Cut theirs = plan_.part(column, h);
      send(0, other, going(theirs).at, theirs.bytes);
      receive(0, other, all.host + h * all.step, own.bytes);
      send(1, other, going(own).at, own.bytes);
      receive(1, other, going(theirs).at, theirs.bytes);
    }
  }

  // Each rank begins with its neighbour's column, so that not all read one rank's memory at a time.
  void fetch_columns(std::size_t phase) {
    for (std::size_t i = 1; i <= plan_.columns; ++i) {
      const std::size_t column = (place_of(own_) + i) % plan_.columns;
      if (column == column_) continue;
      const Cut run = plan_.column(column);
      add(phase, result(run.at), {result(plan_.owner(column, host_), run.at)}, run.bytes);
    }
  }

  // Each host folds every other host's blocks, spread over its ranks.
  void reduce_scatter() {
    const std::vector<std::uint64_t> at = begins(shape_.input);
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      if (h == host_) continue;
      for (const Rank target : plan_.hosts[h]) {
        if (partner(host_, target) != own_) continue;
        const std::uint64_t bytes = shape_.input[number(target)];
        const std::uint64_t sum = take_parts(bytes);
        const std::uint64_t out = take_host(bytes);
        add(0, parts(sum), inputs_of_local_ranks(at[number(target)]), bytes);
        add(0, host(out), {parts(sum)}, bytes);
        send(0, target, out, bytes);
      }
    }
    const std::uint64_t bytes = shape_.output[0];
    const HostParts all = take_all_hosts(bytes);
    add(0, parts(all.device + host_ * all.step), inputs_of_local_ranks(at[number(own_)]), bytes);
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      if (h != host_) receive(0, partner(h, own_), all.host + h * all.step, bytes);
    }
    fold_all_hosts(1, all, result(0), bytes);
  }

  // A block crosses once to each other host.
  void all_gather() {
    const std::vector<std::uint64_t> at = begins(shape_.output);
    const std::uint64_t mine = shape_.output[number(own_)];
    const std::uint64_t out = plan_.hosts.size() > 1 ? take_host(mine) : 0;
    if (plan_.hosts.size() > 1) add(0, host(out), {input(own_, 0)}, mine);
    std::vector<bool> there(shape_.output.size(), false);
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      if (h != host_) send(0, partner(h, own_), out, mine);
      for (const Rank from : plan_.hosts[h]) {
        const std::uint64_t bytes = shape_.output[number(from)];
        const TwoLevelPlace to = result(at[number(from)]);
        there[number(from)] = true;
        if (h == host_) {
          add(1, to, {input(from, 0)}, bytes);
        } else if (const Rank taker = partner(host_, from); taker == own_) {
          const std::uint64_t in = take_host(bytes);
          receive(0, from, in, bytes);
          add(1, to, {host(in)}, bytes);
        } else {
          add(2, to, {result(taker, to.at)}, bytes);
        }
      }
    }
    for (std::size_t r = 0; r < there.size(); ++r) {
      if (!there[r]) add(1, result(at[r]), {}, shape_.output[r]);
    }
  }

  void broadcast() {
    const std::size_t from = plan_.host_of(shape_.root);
    if (host_ == from) {
      if (own_ != shape_.root) add(1, result(0), {input(shape_.root, 0)}, plan_.bytes);
      if (column_ && plan_.hosts.size() > 1) send_column(*column_);
      return;
    }
    if (column_) {
      const Cut run = plan_.column(*column_);
      const std::uint64_t in = take_host(run.bytes);
      receive(0, plan_.owner(*column_, from), in, run.bytes);
      add(1, result(run.at), {host(in)}, run.bytes);
    }
    fetch_columns(2);
  }

  void send_column(std::size_t column) {
    const Cut run = plan_.column(column);
    const std::uint64_t out = take_host(run.bytes);
    if (own_ == shape_.root) {
      add(0, host(out), {input(own_, run.at)}, run.bytes);
    } else {
      // The data goes through this rank's own device memory, so that it passes its own bus.
      const std::uint64_t fetched = take_parts(run.bytes);
      add(0, parts(fetched), {input(shape_.root, run.at)}, run.bytes);
      add(0, host(out), {parts(fetched)}, run.bytes);
    }
    for (std::size_t h = 0; h < plan_.hosts.size(); ++h) {
      if (h != host_) send(0, plan_.owner(column, h), out, run.bytes);
    }
  }

  const DirectShape& shape_;
  const TwoLevelPlan plan_;
  const Rank own_;
  const std::size_t host_;
  const std::optional<std::size_t> column_;
  TwoLevelScript script_;
};

}  // namespace

std::optional<TwoLevelSteps> two_level_steps(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce: return TwoLevelSteps{2, 2};
    case Collective::kReduceScatter: return TwoLevelSteps{1, 1};
    case Collective::kAllGather:
    case Collective::kBroadcast: return TwoLevelSteps{1, 2};
    default: return std::nullopt;
  }
}

TwoLevelScript two_level_script(const DirectShape& shape, const std::vector<int>& host_of,
                                const std::vector<Rank>& ranks) {
  const bool rooted = comm::is_rooted(shape.collective);
  if (!has(ranks, shape.rank) || (rooted && !has(ranks, shape.root))) return empty_script(shape);
  return ScriptWriter(shape, host_of, ranks).run();
}

}  // namespace holdfast::device_comm
