#include "runtime/meeting.h"

#include <algorithm>
#include <random>
#include <sstream>

#include "comm/engine/host_area.h"

namespace holdfast::runtime {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string list(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r.value);
  return text;
}

}  // namespace

Meeting::Meeting(std::shared_ptr<Runtime> runtime, Store& store, const JoinRequest& request,
                 Duration timeout)
    : runtime_(std::move(runtime)),
      store_(store),
      request_(request),
      deadline_(runtime_->clock()->now() + timeout) {}

Duration Meeting::left() const {
  return std::max(deadline_ - runtime_->clock()->now(), Duration::zero());
}

std::string Meeting::key(const std::string& round, Rank rank) const {
  return "holdfast/" + request_.group + "/" + round + "/" + std::to_string(rank.value);
}

Result<std::shared_ptr<ft::Group>> Meeting::run() {
  TRY(exchange_cards());
  TRY(connect());
  return create();
}

Result<std::vector<std::string>> Meeting::round(const std::string& name, const std::string& value) {
  TRY(store_.set(key(name, request_.rank), value));
  std::vector<std::string> values;
  for (int r = 0; r < request_.size; ++r) {
    if (r == request_.rank.value) {
      values.push_back(value);
      continue;
    }
    auto got = store_.get(key(name, {r}), left());
    if (!got.is_ok()) {
      if (got.status().code() != Code::kTimeout) return got.status();
      return missing_error(name, {r});
    }
    values.push_back(std::move(got).value());
  }
  return values;
}

Status Meeting::missing_error(const std::string& round, Rank first) {
  constexpr Duration kLook = std::chrono::milliseconds(20);
  std::vector<Rank> missing{first};
  for (int r = first.value + 1; r < request_.size; ++r) {
    if (r != request_.rank.value && !store_.get(key(round, {r}), kLook).is_ok()) {
      missing.push_back({r});
    }
  }
  const Duration timeout = request_.timeout > Duration::zero()
                               ? request_.timeout
                               : runtime_->parts().options.connect_timeout;
  const double seconds = std::chrono::duration<double>(timeout).count();
  return Status(Code::kTimeout, "group " + request_.group + ": " + std::to_string(missing.size()) +
                                    " of " + std::to_string(request_.size) +
                                    " ranks never came within " + std::to_string(seconds) +
                                    " s: " + list(missing) +
                                    " (option connect_timeout; are they running, with the same "
                                    "world size and store?)")
      .about(missing, {});
}

Status Meeting::exchange_cards() {
  Card own = runtime_->own_card();
  own.nonce = random_number();
  if (own.shm && request_.size > 1) {
    auto flat = comm::Segment::create("flat", sizeof(comm::HostArea));
    if (!flat.is_ok()) return flat.status();
    own_flat_ = std::move(flat).value();
    reinterpret_cast<comm::HostArea*>(own_flat_.data())->owner = comm::MemoryOwner::self();
    own.flat = own_flat_.name();
  }
  auto texts = round("card", encode_card(own));
  if (!texts.is_ok()) return texts.status();
  for (int r = 0; r < request_.size; ++r) {
    auto card = parse_card(texts.value()[static_cast<std::size_t>(r)]);
    if (!card.is_ok()) {
      return Status(card.status().code(), "group " + request_.group + ": rank " +
                                              std::to_string(r) + " " + card.status().message())
          .about({Rank{r}}, {});
    }
    TRY(check_settings(own, request_.rank, card.value(), {r}, request_.group));
    cards_.push_back(std::move(card).value());
  }
  return Status::ok();
}

Status Meeting::connect() {
  // Owners: this call and its tasks on the driver.
  auto missing = std::make_shared<std::atomic<int>>(request_.size);
  runtime_->run([&] {
    for (const Card& card : cards_) runtime_->connect(card, deadline_);
  });
  std::vector<Rank> absent;
  do {
    runtime_->run([&] {
      absent.clear();
      for (int r = 0; r < request_.size; ++r) {
        const Card& card = cards_[static_cast<std::size_t>(r)];
        if (r != request_.rank.value && runtime_->find_peer(card.member) == nullptr) {
          absent.push_back({r});
        }
      }
    });
    if (absent.empty()) return Status::ok();
    // Lends the thread to the handshakes for a moment; nothing tells when the last one is through.
    runtime_->drive_until([] { return false; },
                          runtime_->clock()->now() + std::chrono::milliseconds(1));
  } while (left() > Duration::zero());
  return connect_error(absent);
}

Status Meeting::connect_error(const std::vector<Rank>& absent) {
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

// Every member's flat area, when all of them are on this host.
std::vector<comm::HostPeer> Meeting::open_flat() {
  std::vector<comm::HostPeer> peers;
  for (int r = 0; r < request_.size; ++r) {
    const Card& card = cards_[static_cast<std::size_t>(r)];
    const bool own = r == request_.rank.value;
    if (card.flat.empty() || card.host != runtime_->parts().host) return {};
    Peer* peer = own ? nullptr : runtime_->find_peer(card.member);
    if (!own && (peer == nullptr || !peer->shm)) return {};
    if (own) {
      auto mine = std::make_shared<comm::Segment>(std::move(own_flat_));
      peers.push_back({std::move(mine), runtime_->own_bell(), {}});
      peers.back().own_pool = runtime_->parts().pool;
      continue;
    }
    auto segment = comm::Segment::open(card.flat, sizeof(comm::HostArea));
    if (!segment.is_ok()) return {};
    comm::TcpLink* control = peer->control.get();
    const comm::Bell bell(reinterpret_cast<comm::BellWords*>(peer->bell.data()));
    auto memory =
        comm::reach_memory(reinterpret_cast<comm::HostArea*>(segment.value().data())->owner);
    peers.push_back({std::make_shared<comm::Segment>(std::move(segment).value()), bell,
                     [control] {
                       control->session().send_control(comm::FrameKind::kWake, {}, {}, {});
                       control->pump();
                     },
                     std::move(memory), peer->pool});
  }
  return peers;
}

Meeting::Word Meeting::own_word() {
  Word word{"tcp", {}, {1}};
  runtime_->run([&] {
    std::vector<MemberId> members;
    bool all_shm = true;
    for (const Card& card : cards_) {
      members.push_back(card.member);
      Peer* peer = runtime_->find_peer(card.member);
      if (peer != nullptr && !peer->shm) all_shm = false;
    }
    if (all_shm) word.memory = "shm";
    if (request_.size > 1) flat_ = open_flat();
    if (!flat_.empty())
      word.memory = comm::reach_each_other(flat_, request_.rank) ? "reach" : "flat";
    if (const auto world = runtime_->hub().find_world(members)) {
      word.world = world->id();
      word.epoch = world->view().epoch;
    }
  });
  return word;
}

Result<Meeting::Word> Meeting::parse_word(const std::string& text) {
  Word word;
  std::istringstream in(text);
  in >> word.memory >> word.world.value >> word.epoch.value;
  if (in.fail() || word.epoch.value == 0) {
    return Status{Code::kProtocolError, "damaged word in the store: " + text.substr(0, 64)};
  }
  return word;
}

// Only what every member sees alike may decide.
Result<ft::GroupConfig> Meeting::agree(const std::vector<Word>& words) {
  ft::GroupConfig config = runtime_->base_config(request_);
  config.id = CommId{cards_[0].nonce};
  config.rank = request_.rank;
  const auto nobody_says = [&](const std::string& memory) {
    return std::none_of(words.begin(), words.end(),
                        [&](const Word& word) { return word.memory == memory; });
  };
  config.shares_memory = nobody_says("tcp");
  if (config.shares_memory && nobody_says("shm")) config.flat = std::move(flat_);
  for (comm::HostPeer& peer : config.flat) {
    if (!nobody_says("flat")) peer.memory.reset();
  }
  for (const Word& word : words) {
    if (word.world != words[0].world) {
      return Status{Code::kProtocolError,
                    "group " + request_.group +
                        ": its members were parted by a change of view while they met; make the "
                        "group again"};
    }
    config.epoch = std::max(config.epoch, word.epoch);
  }
  for (const Card& card : cards_) config.members.push_back(card.member);
  return config;
}

std::shared_ptr<ft::World> Meeting::make_world() {
  ft::WorldView view;
  view.epoch = {1};
  for (const Card& card : cards_) {
    view.members.push_back(card.member);
    view.cards.push_back(encode_card(card));
  }
  const CommId id{cards_[0].nonce};
  ft::Membership membership(id, runtime_->world_name(request_.group), runtime_->parts().self,
                            std::move(view), runtime_->membership_settings());
  auto world = std::make_shared<ft::World>(id, std::move(membership), runtime_->hub());
  runtime_->hub().add_world(world);
  return world;
}

Result<std::shared_ptr<ft::Group>> Meeting::create() {
  const Word own = own_word();
  auto ready = round("ready", own.memory + " " + std::to_string(own.world.value) + " " +
                                  std::to_string(own.epoch.value));
  if (!ready.is_ok()) return ready.status();
  std::vector<Word> words;
  for (const std::string& text : ready.value()) {
    auto word = parse_word(text);
    if (!word.is_ok()) return word.status();
    words.push_back(std::move(word).value());
  }
  own_flat_.unlink();
  auto config = agree(words);
  if (!config.is_ok()) return config.status();
  Result<std::shared_ptr<ft::Group>> made = Status(Code::kAborted, "not made");
  runtime_->run([&] {
    made = runtime_->make_group(std::move(config).value(), words[0].world,
                                [this] { return make_world(); });
  });
  return made;
}

}  // namespace holdfast::runtime
