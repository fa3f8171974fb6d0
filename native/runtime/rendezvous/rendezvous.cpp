#include "runtime/rendezvous/rendezvous.h"

#include <algorithm>
#include <sstream>

#include "runtime/rendezvous/member_id.h"
#include "runtime/rendezvous/open_memory.h"

namespace holdfast::runtime {
namespace {

// Pause between two looks for successors: a rank that is started again takes longer.
constexpr Duration kSuccessorLook = std::chrono::milliseconds(250);
// A member that has voted and cannot be reached for so long is dead: waiting for it is in vain.
constexpr Duration kLongestAbsence = std::chrono::seconds(5);

std::string list(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r.value);
  return text;
}

}  // namespace

Rendezvous::Rendezvous(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
                       const Life& life, Instant deadline)
    : runtime_(std::move(runtime)),
      store_(store),
      request_(request),
      life_(life),
      deadline_(deadline) {}

Duration Rendezvous::left() const {
  return std::max(deadline_ - runtime_->clock()->now(), Duration::zero());
}

std::string Rendezvous::key(const std::string& round, Rank rank) const {
  return life_.key(round, rank);
}

Result<std::shared_ptr<group::Group>> Rendezvous::run() {
  TRY(exchange_cards());
  if (!over_) TRY(connect());
  if (!over_) return create();
  for (const Card& card : cards_) runtime_->run([&] { runtime_->stop_calling(card.member); });
  return std::shared_ptr<group::Group>();
}

Status Rendezvous::missing_error(const std::string& round, Rank first) {
  std::vector<Rank> missing{first};
  for (int r = first.value + 1; r < request_.size; ++r) {
    const auto is_there = store_.has(key(round, {r}));
    const bool came = is_there.is_ok() && is_there.value();
    if (r != request_.rank.value && !came) missing.push_back({r});
  }
  const Duration timeout = request_.timeout > Duration::zero()
                               ? request_.timeout
                               : runtime_->parts().options.connect_timeout;
  const double seconds = std::chrono::duration<double>(timeout).count();
  return Status(
             Code::kTimeout,
             "group " + request_.group + ": " + std::to_string(missing.size()) + " of " +
                 std::to_string(request_.size) + " ranks never came within " +
                 std::to_string(seconds) + " s: " + list(missing) +
                 " (option connect_timeout; are they running, with the same "
                 "world size and store?)" +
                 (life_.number() > 1 ? "; what was started with this store before has ended" : ""))
      .about(missing, {});
}

Status Rendezvous::exchange_cards() {
  Card own = runtime_->own_card();
  own.nonce = random_number();
  if (runtime_->shares_memory() && request_.size > 1 && !is_sparse()) {
    if (auto area = runtime_->make_room(); area.is_ok()) {
      own_area_ = std::move(area).value();
      own.flat = own_area_->name;
    }
  }
  TRY(store_.set(key("card", request_.rank), encode_card(own)));
  for (int r = 0; r < request_.size; ++r) {
    if (Rank{r} == request_.rank) {
      cards_.push_back(own);
      continue;
    }
    auto is_there = await("card", {r});
    if (!is_there.is_ok()) return is_there.status();
    if (over_) return Status::ok();
    if (!is_there.value()) return missing_error("card", {r});
    auto card = read_card({r});
    if (!card.is_ok()) return card.status();
    cards_.push_back(std::move(card).value());
  }
  return Status::ok();
}

// Whether the rank's part has come in time; false also when the life is over meanwhile.
Result<bool> Rendezvous::await(const std::string& round, Rank rank) {
  Lookout lookout(*runtime_, deadline_);
  for (;;) {
    auto is_there = lookout.sees(store_, key(round, rank));
    if (!is_there.is_ok() || is_there.value()) return is_there;
    TRY(look_for_end());
    if (over_ || !lookout.rest()) return false;
  }
}

Status Rendezvous::look_for_end() {
  if (runtime_->clock()->now() < next_end_look_) return Status::ok();
  next_end_look_ = runtime_->clock()->now() + kSuccessorLook;
  auto over = life_.is_over(store_);
  if (!over.is_ok() || !over.value()) return over.status();
  over_ = !is_ready_;
  if (over_) return Status::ok();
  // If the life has begun, this member is part of it: other members may have ended it already.
  auto begins = life_.decide(store_, false);
  if (!begins.is_ok()) return begins.status();
  over_ = !begins.value();
  return Status::ok();
}

Result<Card> Rendezvous::read_card(Rank rank) {
  auto text = store_.get(key("card", rank), std::min(left(), kStoreLook));
  if (!text.is_ok()) return text.status();
  auto card = parse_card(text.value());
  if (!card.is_ok()) {
    return Status(card.status().code(), "group " + request_.group + ": rank " +
                                            std::to_string(rank.value) + " " +
                                            card.status().message())
        .about({rank}, {});
  }
  TRY(check_settings(runtime_->own_card(), request_.rank, card.value(), rank, request_.group));
  return card;
}

Status Rendezvous::connect() {
  runtime_->run([&] {
    for (const Card& card : cards_) {
      if (wants(card.member)) runtime_->connect(card, deadline_);
    }
  });
  next_look_ = runtime_->clock()->now() + kSuccessorLook;
  do {
    if (absent().empty()) return Status::ok();
    // Lends the thread to the handshakes for a moment; no event tells when the last one is done.
    runtime_->drive_until([] { return false; },
                          runtime_->clock()->now() + std::chrono::milliseconds(1));
    TRY(look_for_successors());
    TRY(look_for_end());
    if (over_) return Status::ok();
  } while (left() > Duration::zero());
  return connect_error(absent());
}

std::vector<Rank> Rendezvous::absent() {
  std::vector<Rank> ranks;
  runtime_->run([&] {
    for (int r = 0; r < request_.size; ++r) {
      const MemberId member = cards_[static_cast<std::size_t>(r)].member;
      if (wants(member) && runtime_->find_peer(member) == nullptr) ranks.push_back({r});
    }
  });
  return ranks;
}

bool Rendezvous::is_sparse() const {
  return ft::is_sparse(mesh_of(runtime_->parts().options), static_cast<std::size_t>(request_.size));
}

// Whether this process is to have a connection with the member when the group begins.
bool Rendezvous::wants(MemberId member) const {
  const MemberId self = runtime_->parts().self;
  if (!is_sparse()) return member != self;
  ft::WorldView view;
  for (const Card& card : cards_) view.members.push_back(card.member);
  const auto near = ft::neighbours(view, self, runtime_->coordinator().has_value());
  return std::find(near.begin(), near.end(), member) != near.end();
}

Status Rendezvous::look_for_successors() {
  if (runtime_->clock()->now() < next_look_) return Status::ok();
  for (const Rank rank : absent()) {
    TRY(take_successor(rank));
    TRY(look_at_absence(rank));
  }
  next_look_ = runtime_->clock()->now() + kSuccessorLook;
  return Status::ok();
}

// A rank that has voted cannot be replaced any more. If it has died since, members that were
// started later cannot connect to it, and this life never begins.
Status Rendezvous::look_at_absence(Rank rank) {
  auto is_ready = store_.has(key("ready", rank));
  if (!is_ready.is_ok() || !is_ready.value()) return is_ready.status();
  const Instant now = runtime_->clock()->now();
  const Instant since = absent_since_.try_emplace(rank, now).first->second;
  if (now - since < kLongestAbsence) return Status::ok();
  auto begins = life_.decide(store_, false);
  if (!begins.is_ok() || begins.value()) return begins.status();
  over_ = true;
  return life_.end(store_);
}

Status Rendezvous::take_successor(Rank rank) {
  auto next = read_card(rank);
  // A store that does not answer in time is asked again later.
  if (next.status().code() == Code::kTimeout) return Status::ok();
  if (!next.is_ok()) return next.status();
  Card& card = cards_[static_cast<std::size_t>(rank.value)];
  if (next.value().member == card.member) return Status::ok();
  // The vote is read after the card: if the card is a late joiner's, the vote of the process that
  // it succeeds is there already.
  auto is_ready = store_.has(key("ready", rank));
  if (!is_ready.is_ok()) return is_ready.status();
  if (is_ready.value()) {
    const auto text = store_.get(key("ready", rank), std::min(left(), kStoreLook));
    if (text.status().code() == Code::kTimeout) return Status::ok();
    if (!text.is_ok()) return text.status();
    const auto vote = parse_vote(text.value());
    if (!vote.is_ok()) return vote.status();
    if (vote.value().member != next.value().member) return Status::ok();
  }
  absent_since_.erase(rank);
  card = std::move(next).value();
  if (wants(card.member)) runtime_->run([&] { runtime_->connect(card, deadline_); });
  return Status::ok();
}

Status Rendezvous::connect_error(const std::vector<Rank>& absent) {
  std::string why;
  runtime_->run([&] {
    for (const Rank r : absent) {
      const Status failure =
          runtime_->connect_failure(cards_[static_cast<std::size_t>(r.value)].member);
      why += "; rank " + std::to_string(r.value) + ": " +
             (failure.is_ok() ? "it did not call" : failure.message());
    }
  });
  return Status(Code::kTimeout, "group " + request_.group + ": rank " +
                                    std::to_string(request_.rank.value) +
                                    " has no connection to ranks " + list(absent) + why)
      .about(absent, {});
}

// The flat areas of all members, if all are on this host; else empty.
std::vector<comm::HostPeer> Rendezvous::open_flat() {
  std::vector<comm::HostPeer> peers;
  for (int r = 0; r < request_.size; ++r) {
    auto peer = open_flat_of({r});
    if (!peer) return {};
    peers.push_back(std::move(*peer));
  }
  return peers;
}

std::optional<comm::HostPeer> Rendezvous::open_flat_of(Rank rank) {
  const Card& card = cards_[static_cast<std::size_t>(rank.value)];
  if (card.flat.empty() || card.host != runtime_->parts().host) return std::nullopt;
  if (rank == request_.rank) return own_area_->peer;
  return runtime_->open_area(card.member, card.flat);
}

Rendezvous::ReadyVote Rendezvous::own_vote() {
  ReadyVote vote{kNoMemory, {}, {1}, runtime_->parts().self};
  runtime_->run([&] {
    std::vector<MemberId> members;
    for (const Card& card : cards_) members.push_back(card.member);
    if (request_.size > 1) flat_ = open_flat();
    vote.memory = usable_memory(*runtime_, members, flat_, request_.rank);
    if (const auto world = runtime_->router().find_world(members)) {
      vote.world = world->id();
      vote.epoch = world->view().epoch;
    }
  });
  return vote;
}

std::string Rendezvous::encode_vote(const ReadyVote& vote) {
  return vote.memory + " " + std::to_string(vote.world.value) + " " +
         std::to_string(vote.epoch.value) + " " + std::to_string(vote.member.value);
}

Result<Rendezvous::ReadyVote> Rendezvous::parse_vote(const std::string& text) {
  ReadyVote vote;
  std::istringstream in(text);
  in >> vote.memory >> vote.world.value >> vote.epoch.value >> vote.member.value;
  if (in.fail() || vote.epoch.value == 0) {
    return Status{Code::kProtocolError, "damaged vote in the store: " + text.substr(0, 64)};
  }
  return vote;
}

// Uses only what every member sees alike, so that all members agree.
Result<group::GroupConfig> Rendezvous::agree(const std::vector<ReadyVote>& votes) {
  group::GroupConfig config = runtime_->base_config(request_);
  config.id = CommId{cards_[0].nonce};
  config.rank = request_.rank;
  std::vector<std::string> said;
  said.reserve(votes.size());
  for (const ReadyVote& vote : votes) said.push_back(vote.memory);
  agree_on_memory(said, std::move(flat_), config);
  for (const ReadyVote& vote : votes) {
    if (vote.world != votes[0].world) {
      return Status{Code::kProtocolError,
                    "group " + request_.group +
                        ": its members were parted by a change of view while they met; make the "
                        "group again"};
    }
    config.epoch = std::max(config.epoch, vote.epoch);
  }
  for (const Card& card : cards_) config.members.push_back(card.member);
  return config;
}

std::shared_ptr<group::World> Rendezvous::make_world() {
  ft::WorldView view;
  view.epoch = {1};
  for (const Card& card : cards_) {
    view.members.push_back(card.member);
    view.cards.push_back(encode_card(card));
  }
  const CommId id{cards_[0].nonce};
  ft::Membership membership(id, runtime_->world_name(request_.group), runtime_->parts().self,
                            std::move(view), runtime_->membership_settings());
  auto world = std::make_shared<group::World>(id, std::move(membership), runtime_->router());
  runtime_->router().add_world(world);
  return world;
}

Result<std::vector<Rendezvous::ReadyVote>> Rendezvous::exchange_votes(const ReadyVote& own) {
  TRY(store_.set(key("ready", request_.rank), encode_vote(own)));
  is_ready_ = true;
  std::vector<ReadyVote> votes;
  Lookout lookout(*runtime_, deadline_);
  while (static_cast<int>(votes.size()) < request_.size) {
    const Rank rank{static_cast<std::int32_t>(votes.size())};
    auto is_there = lookout.sees(store_, key("ready", rank));
    if (!is_there.is_ok()) return is_there.status();
    if (is_there.value()) {
      auto text = store_.get(key("ready", rank), kStoreLook);
      if (!text.is_ok()) return text.status();
      auto vote = parse_vote(text.value());
      if (!vote.is_ok()) return vote.status();
      votes.push_back(std::move(vote).value());
      continue;
    }
    TRY(look_for_successors());
    TRY(look_for_end());
    if (over_) return votes;
    if (!lookout.rest()) return missing_error("ready", rank);
  }
  return votes;
}

Status Rendezvous::lost_error(Rank rank) const {
  return Status(Code::kPeerLost, "group " + request_.group + ": rank " +
                                     std::to_string(rank.value) +
                                     " was lost while the group was made; make it again")
      .about({rank}, {});
}

Result<std::shared_ptr<group::Group>> Rendezvous::create() {
  const ReadyVote own = own_vote();
  const std::vector<Card> met = cards_;
  auto exchanged = exchange_votes(own);
  if (!exchanged.is_ok()) return exchanged.status();
  if (over_) return std::shared_ptr<group::Group>();
  const std::vector<ReadyVote>& votes = exchanged.value();
  for (std::size_t r = 0; r < votes.size(); ++r) {
    const Rank rank{static_cast<std::int32_t>(r)};
    if (votes[r].member != cards_[r].member) TRY(take_successor(rank));
    if (votes[r].member != cards_[r].member) return lost_error(rank);
    if (votes[r].member == met[r].member) continue;
    // The member has a connection to this process, or it would not have voted.
    TRY(connect());
    if (over_) return std::shared_ptr<group::Group>();
    if (flat_.empty()) continue;
    std::optional<comm::HostPeer> again;
    runtime_->run([&] { again = open_flat_of(rank); });
    if (!again || (flat_[r].memory && !again->memory)) return lost_error(rank);
    flat_[r] = std::move(*again);
  }
  auto begins = life_.decide(store_, true);
  if (!begins.is_ok()) return begins.status();
  over_ = !begins.value();
  if (over_) return std::shared_ptr<group::Group>();
  auto config = agree(votes);
  if (!config.is_ok()) return config.status();
  Result<std::shared_ptr<group::Group>> made = Status(Code::kAborted, "not made");
  runtime_->run([&] {
    made = runtime_->make_group(std::move(config).value(), votes[0].world,
                                [this] { return make_world(); });
  });
  return made;
}

}  // namespace holdfast::runtime
