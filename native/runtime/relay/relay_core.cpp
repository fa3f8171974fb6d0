#include "runtime/relay/relay_core.h"

#include <algorithm>
#include <utility>

#include "base/net/socket.h"
#include "runtime/rendezvous/sealer.h"

namespace holdfast::runtime {

using health::RelayRefusal;

namespace {

// A token that is revoked, or too old, connects nobody for longer.
constexpr Duration kReview = std::chrono::milliseconds(500);
// Ports below serve others' programs: nobody has the relay call there.
constexpr std::uint16_t kFirstFreePort = 1024;

}  // namespace

Status check_member(const secure::TokenClaims& claims, const std::set<secure::Serial>& revoked) {
  TRY(check_claims(claims, {claims.run, unix_now(), revoked}));
  if (claims.role == secure::TokenRole::kMember) return Status::ok();
  return {Code::kAuthFailed, std::string("the token's role is ") + role_name(claims.role) +
                                 "; accepted, to be connected: member"};
}

void RelayCore::enter(Line line, const std::string& address, Instant now) {
  const WaitingRoom::Arrival arrival = room_.enter(address);
  if (arrival.gives_way) {
    const auto seat = seats_.find(*arrival.gives_way);
    if (seat != seats_.end()) hang_up(seat->second);
  }
  LineState& state = lines_[line];
  state.address = address;
  state.seat = arrival.ticket;
  state.deadline = now + limits_.patience;
  seats_[arrival.ticket] = line;
  ++by_address_[address][index(state.stage)];
  ++all_[index(state.stage)];
}

// From one stage to the next, in all counts.
void RelayCore::settle(Line line, LineState& state, LineStage stage) {
  if (stage != LineStage::kPreface && seats_.erase(state.seat) > 0) room_.leave(state.seat);
  const bool known = state.stage != LineStage::kMagic && state.stage != LineStage::kPreface;
  --all_[index(state.stage)];
  --by_address_[state.address][index(state.stage)];
  if (known) --by_party_[state.party][index(state.stage)];
  if (state.stage == LineStage::kWaiting) calls_.erase(state.ticket);
  if (state.stage == LineStage::kRegistered) {
    const auto member = members_.find({state.claims.run, state.self});
    if (member != members_.end() && member->second == line) members_.erase(member);
  }
  state.stage = stage;
  ++all_[index(stage)];
  ++by_address_[state.address][index(stage)];
  if (stage != LineStage::kPreface) ++by_party_[state.party][index(stage)];
}

bool RelayCore::has_room(const LineState& state, LineStage stage, const RelayShare& share) const {
  const auto count = [&](const auto& counts, const std::string& key) {
    const auto found = counts.find(key);
    return found == counts.end() ? std::size_t{0} : found->second[index(stage)];
  };
  return all_[index(stage)] < share.all && count(by_address_, state.address) < share.per_address &&
         (state.party.empty() || count(by_party_, state.party) < share.per_token);
}

void RelayCore::hear(Line line, std::span<const std::byte> bytes, Instant now) {
  const auto found = lines_.find(line);
  if (found == lines_.end() || bytes.empty()) return;
  LineState& state = found->second;
  if (state.stage == LineStage::kRegistered) {
    // Each byte is a sign of life; one answer is enough for all that came together.
    state.deadline = now + limits_.silence;
    acts_.push_back(SayTo{line, {kRelayLives}});
    return;
  }
  if (state.stage == LineStage::kLeaving || state.stage == LineStage::kJoined) return;
  // Nobody who waits has anything to say before it is told to.
  const bool fits = state.in.size() + bytes.size() <= kMaxPrefaceBytes + kRelayMagic.size() + 2;
  if (state.stage == LineStage::kWaiting || !fits) return hang_up(line);
  state.in.insert(state.in.end(), bytes.begin(), bytes.end());
  if (state.stage == LineStage::kMagic) {
    const std::size_t count = std::min(state.in.size(), kRelayMagic.size());
    if (!std::equal(state.in.begin(), state.in.begin() + static_cast<std::ptrdiff_t>(count),
                    kRelayMagic.begin())) {
      return refuse(line, state,
                    {RelayVerdict::kRefused, RelayRefusal::kMalformed,
                     "this is a relay of Holdfast's, and speaks its protocol alone"});
    }
    if (count < kRelayMagic.size()) return;
    state.in.erase(state.in.begin(), state.in.begin() + static_cast<std::ptrdiff_t>(count));
    random_(state.challenge);
    std::vector<std::byte> greeting(kRelayMagic.begin(), kRelayMagic.end());
    greeting.insert(greeting.end(), state.challenge.begin(), state.challenge.end());
    acts_.push_back(SayTo{line, std::move(greeting)});
    settle(line, state, LineStage::kPreface);
  }
  hear_preface(line, state, now);
}

void RelayCore::hear_preface(Line line, LineState& state, Instant now) {
  if (state.in.size() < 2) return;
  const std::size_t size =
      std::to_integer<std::size_t>(state.in[0]) | std::to_integer<std::size_t>(state.in[1]) << 8;
  if (size > kMaxPrefaceBytes || state.in.size() > size + 2) {
    return refuse(line, state,
                  {RelayVerdict::kRefused, RelayRefusal::kMalformed, "malformed preface"});
  }
  if (state.in.size() < size + 2) return;
  const auto sealed = parse_preface(std::span(state.in).subspan(2));
  state.in = {};
  if (!sealed.is_ok()) {
    return refuse(line, state,
                  {RelayVerdict::kRefused, RelayRefusal::kMalformed, sealed.status().message()});
  }
  const Preface& preface = sealed.value().preface;
  auto claims = secure::parse_claims(preface.claims);
  const auto key = claims.is_ok() ? gate_.key_of(preface.claims) : claims.status();
  // Who has no key is not told why it has none.
  Status sound = key.is_ok() ? check_proof(sealed.value(), key.value(), state.challenge)
                             : Status(Code::kAuthFailed, kUnknownKey);
  if (sound.is_ok()) {
    state.claims = std::move(claims).value();
    const bool holder = state.claims.run == kHoldersRun;
    state.party = holder ? "" : serial_text(state.claims.serial);
    state.self = preface.self;
    sound = gate_.check(state.claims);
  }
  if (!sound.is_ok()) {
    return refuse(line, state, {RelayVerdict::kRefused, RelayRefusal::kToken, sound.message()});
  }
  carry_out(line, state, preface, now);
}

void RelayCore::carry_out(Line line, LineState& state, const Preface& preface, Instant now) {
  state.wanted = preface.wanted;
  state.ticket = preface.ticket;
  switch (preface.wish) {
    case RelayWish::kRegister: return register_member(line, state, now);
    case RelayWish::kCall: return call(line, state, now);
    case RelayWish::kPickUp: return pick_up(line, state);
    case RelayWish::kKnock: return knock(line, state, preface);
  }
}

// A member that registers again has lost its line, whatever the older one seems to be.
void RelayCore::register_member(Line line, LineState& state, Instant now) {
  const Name name{state.claims.run, state.self};
  const auto known = members_.find(name);
  if (known != members_.end()) {
    if (lines_.at(known->second).party != state.party) {
      return refuse(line, state,
                    {RelayVerdict::kRefused, RelayRefusal::kTaken,
                     "the member is registered by another token"});
    }
    hang_up(known->second);
  }
  if (!has_room(state, LineStage::kRegistered, limits_.registered)) {
    return refuse(line, state,
                  {RelayVerdict::kFull, RelayRefusal::kFull, "too many members are registered"});
  }
  settle(line, state, LineStage::kRegistered);
  members_[name] = line;
  state.deadline = now + limits_.silence;
  acts_.push_back(SayTo{line, encode_verdict(RelayVerdict::kDone, "")});
  // Calls that were told to its older line may not have been heard there.
  for (const auto& [ticket, caller] : calls_) {
    const LineState& waits = lines_.at(caller);
    if (waits.wanted != state.self || waits.claims.run != state.claims.run) continue;
    acts_.push_back(SayTo{line, encode_ticket(waits.self, ticket)});
  }
}

void RelayCore::call(Line line, LineState& state, Instant now) {
  const auto member = members_.find({state.claims.run, state.wanted});
  if (member == members_.end()) {
    return refuse(
        line, state,
        {RelayVerdict::kAbsent, RelayRefusal::kAbsent, "the member is not registered here"});
  }
  if (!has_room(state, LineStage::kWaiting, limits_.waiting)) {
    return refuse(line, state, {RelayVerdict::kFull, RelayRefusal::kFull, "too many calls wait"});
  }
  random_(state.ticket);
  settle(line, state, LineStage::kWaiting);
  calls_[state.ticket] = line;
  state.deadline = now + limits_.waits;
  acts_.push_back(SayTo{member->second, encode_ticket(state.self, state.ticket)});
}

void RelayCore::pick_up(Line line, LineState& state) {
  const auto waits = calls_.find(state.ticket);
  LineState* caller = waits == calls_.end() ? nullptr : &lines_.at(waits->second);
  if (caller == nullptr || caller->claims.run != state.claims.run || caller->wanted != state.self) {
    return refuse(line, state,
                  {RelayVerdict::kAbsent, RelayRefusal::kAbsent, "nobody waits with this ticket"});
  }
  const Line calling = waits->second;
  if (!has_room(state, LineStage::kJoined, limits_.joined) ||
      !has_room(*caller, LineStage::kJoined, limits_.joined)) {
    refuse(calling, *caller, {RelayVerdict::kFull, RelayRefusal::kFull, "too many are connected"});
    return refuse(line, state,
                  {RelayVerdict::kFull, RelayRefusal::kFull, "too many are connected"});
  }
  settle(calling, *caller, LineStage::kJoined);
  settle(line, state, LineStage::kJoined);
  ++joined_;
  caller->other = line;
  state.other = calling;
  acts_.push_back(SayTo{calling, encode_verdict(RelayVerdict::kDone, "")});
  acts_.push_back(SayTo{line, encode_verdict(RelayVerdict::kDone, "")});
  acts_.push_back(JoinTwo{calling, line});
}

// It is called where it says it is, and where it is seen to be.
void RelayCore::knock(Line line, LineState& state, const Preface& preface) {
  KnockAt knock{{}, preface.ticket};
  if (preface.port >= kFirstFreePort) {
    for (const std::string& address : preface.addresses) {
      // Loopback is another host's there, unless it is the relay's own.
      const bool inside = address.starts_with("127.") || address == "::1";
      const bool beside = state.address.starts_with("127.") || state.address == "::1";
      if (is_numeric_address(address) && inside == beside) {
        knock.places.push_back({address, preface.port});
      }
    }
  }
  acts_.push_back(SayTo{line, encode_verdict(RelayVerdict::kDone, "")});
  if (!knock.places.empty()) acts_.push_back(std::move(knock));
  hang_up(line);
}

void RelayCore::refuse(Line line, LineState& state, const RefusalWords& words) {
  ++refused_[static_cast<std::size_t>(words.kind)];
  CallerFacts facts;
  if (!state.claims.run.empty()) {
    facts.run = state.claims.run;
    if (!state.party.empty()) facts.token = state.party;
  }
  // Who is not there yet is called again; that is no refusal to be looked into.
  if (words.verdict != RelayVerdict::kAbsent) {
    acts_.push_back(Note{line, words.why, std::move(facts)});
  }
  acts_.push_back(SayTo{line, encode_verdict(words.verdict, words.why)});
  hang_up(line);
}

void RelayCore::hang_up(Line line) {
  acts_.push_back(HangUp{line});
  leave(line);
}

void RelayCore::leave(Line line) {
  const auto found = lines_.find(line);
  if (found == lines_.end()) return;
  LineState& state = found->second;
  settle(line, state, LineStage::kLeaving);
  --all_[index(LineStage::kLeaving)];
  const auto forget = [&](auto& counts, const std::string& key) {
    const auto own = counts.find(key);
    --own->second[index(LineStage::kLeaving)];
    const bool none = std::ranges::all_of(own->second, [](std::size_t n) { return n == 0; });
    if (none) counts.erase(own);
  };
  forget(by_address_, state.address);
  forget(by_party_, state.party);
  const Line other = state.other;
  lines_.erase(found);
  if (other != 0 && lines_.contains(other)) {
    lines_.at(other).other = 0;
    leave(other);
  }
}

void RelayCore::tick(Instant now) {
  std::vector<Line> late;
  for (const auto& [line, state] : lines_) {
    if (state.stage != LineStage::kJoined && now >= state.deadline) late.push_back(line);
  }
  for (const Line line : late) {
    const auto found = lines_.find(line);
    if (found == lines_.end()) continue;
    if (found->second.stage == LineStage::kWaiting) {
      refuse(line, found->second,
             {RelayVerdict::kAbsent, RelayRefusal::kAbsent, "the member did not pick up in time"});
    } else {
      hang_up(line);
    }
  }
  if (now >= next_review_) review(now);
}

void RelayCore::review(Instant now) {
  next_review_ = now + kReview;
  std::vector<Line> refused;
  for (const auto& [line, state] : lines_) {
    if (state.stage == LineStage::kMagic || state.stage == LineStage::kPreface) continue;
    if (!gate_.check(state.claims).is_ok()) refused.push_back(line);
  }
  for (const Line line : refused) {
    const auto found = lines_.find(line);
    if (found == lines_.end()) continue;
    ++refused_[static_cast<std::size_t>(RelayRefusal::kRevoked)];
    acts_.push_back(Note{line, "its token does not count any more", {}});
    hang_up(line);
  }
}

RelayCore::LineCounts RelayCore::counts() const {
  return {all_[index(LineStage::kRegistered)], all_[index(LineStage::kWaiting)],
          all_[index(LineStage::kJoined)] / 2, joined_, refused_};
}

}  // namespace holdfast::runtime
