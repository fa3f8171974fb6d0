#include "runtime/meeting.h"

#include <algorithm>
#include <random>

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

bool Meeting::may_use_shm() const {
  const auto& allowed = runtime_->parts().options.transports;
  return std::find(allowed.begin(), allowed.end(), "shm") != allowed.end() &&
         runtime_->parts().bell;
}

void Meeting::on_driver(const std::function<void()>& task) {
  // Owners: this call and the task, which may outlive it when the deadline of a broken driver
  // passes.
  auto done = std::make_shared<std::atomic<bool>>(false);
  runtime_->submit(
      [&task, done] {
        task();
        done->store(true, std::memory_order_release);
      },
      false);
  runtime_->drive_until([done] { return done->load(std::memory_order_acquire); },
                        Instant{Duration::max()});
}

Result<std::shared_ptr<comm::LiveCommunicator>> Meeting::run() {
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
  const Runtime::Parts& parts = runtime_->parts();
  Card own;
  own.member = parts.self;
  own.host = parts.host;
  own.port = parts.port;
  own.addresses = parts.options.address.empty() ? interface_addresses()
                                                : std::vector<std::string>{parts.options.address};
  own.nonce = random_number();
  own.shm = may_use_shm();
  if (own.shm && request_.size > 1) {
    auto flat = comm::Segment::create("flat", sizeof(comm::FlatArea));
    if (!flat.is_ok()) return flat.status();
    own_flat_ = std::move(flat).value();
    own.bell = parts.bell.name();
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
    cards_.push_back(std::move(card).value());
  }
  return Status::ok();
}

Status Meeting::connect() {
  // Owners: this call and its tasks on the driver.
  auto missing = std::make_shared<std::atomic<int>>(request_.size);
  on_driver([&] {
    for (const Card& card : cards_) runtime_->connect(card, deadline_);
  });
  std::vector<Rank> absent;
  do {
    on_driver([&] {
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
  on_driver([&] {
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
std::optional<comm::FlatExchange> Meeting::open_flat() {
  std::vector<comm::FlatPeer> peers;
  for (int r = 0; r < request_.size; ++r) {
    const Card& card = cards_[static_cast<std::size_t>(r)];
    const bool own = r == request_.rank.value;
    if (card.flat.empty() || card.host != runtime_->parts().host) return std::nullopt;
    Peer* peer = own ? nullptr : runtime_->find_peer(card.member);
    if (!own && (peer == nullptr || !peer->shm)) return std::nullopt;
    if (own) {
      peers.push_back({std::move(own_flat_), runtime_->own_bell(), {}});
      continue;
    }
    auto segment = comm::Segment::open(card.flat, sizeof(comm::FlatArea));
    if (!segment.is_ok()) return std::nullopt;
    comm::TcpLink* control = peer->control.get();
    const comm::Bell bell(reinterpret_cast<comm::BellWords*>(peer->bell.data()));
    peers.push_back({std::move(segment).value(), bell, [control] {
                       control->session().send_control(comm::FrameKind::kWake, {}, {}, {});
                       control->pump();
                     }});
  }
  return comm::FlatExchange(request_.rank, std::move(peers));
}

// The hosts of all members, numbered as they appear: every member has the same cards.
std::vector<int> Meeting::hosts() const {
  std::vector<std::string> names;
  std::vector<int> numbers;
  for (const Card& card : cards_) {
    const auto found = std::find(names.begin(), names.end(), card.host);
    numbers.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(card.host);
  }
  return numbers;
}

Result<std::shared_ptr<comm::LiveCommunicator>> Meeting::create() {
  comm::CommunicatorConfig config;
  config.id = CommId{cards_[0].nonce};
  config.rank = request_.rank;
  config.name = request_.group;
  config.timeout = request_.op_timeout > Duration::zero() ? request_.op_timeout
                                                          : runtime_->parts().options.timeout;
  config.algorithm = runtime_->parts().options.algorithm;
  config.hosts = hosts();
  bool all_shm = true;
  std::optional<comm::FlatExchange> flat;
  on_driver([&] {
    for (int r = 0; r < request_.size; ++r) {
      const Card& card = cards_[static_cast<std::size_t>(r)];
      config.view.members.push_back(card.member);
      Peer* peer = r == request_.rank.value ? nullptr : runtime_->find_peer(card.member);
      config.links.push_back(peer == nullptr
                                 ? comm::MemberLinks{}
                                 : comm::MemberLinks{&peer->data(), peer->control.get()});
      if (peer != nullptr && !peer->shm) all_shm = false;
    }
    if (request_.size > 1) flat = open_flat();
  });
  auto ready = round("ready", flat.has_value() ? "flat" : all_shm ? "shm" : "tcp");
  if (!ready.is_ok()) return ready.status();
  const auto& answers = ready.value();
  const auto all_say = [&](const std::string& word) {
    return std::all_of(answers.begin(), answers.end(), [&](const auto& a) { return a == word; });
  };
  // Only what every member sees alike may steer the choice of an algorithm.
  config.link_model = all_say("flat") || all_say("shm") ? topology::kShmLink : topology::kTcpLink;
  if (flat.has_value()) flat->unlink_own();
  if (flat.has_value() && all_say("flat")) config.flat = std::move(flat);
  auto communicator =
      std::make_shared<comm::LiveCommunicator>(std::move(config), runtime_, runtime_->clock());
  on_driver([&] { runtime_->add_communicator(communicator); });
  return communicator;
}

}  // namespace holdfast::runtime
