// Any bytes from another mailbox: its hello, its frames over a link while this rank sends,
// receives, probes and cancels, and its ring in shared memory. The mailbox refuses or takes them,
// keeps no more than the credit, and ends every request when the world ends. Input: what it is,
// then steps.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "comm/message/mail_core.h"
#include "comm/message/mail_hello.h"
#include "comm/message/mail_ring.h"
#include "comm/message/mail_ways.h"

namespace {

using namespace holdfast;
using namespace holdfast::comm;

constexpr Rank kSelf{0};
constexpr Rank kOther{1};
constexpr MailLimits kLimits{4096, 8, 600};

void insist(bool holds) {
  if (!holds) __builtin_trap();
}

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::span<const std::byte> take(std::size_t most) {
    const auto part = bytes_.first(std::min(most, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Nothing is shared.
class NoMemory final : public MailMemory {
 public:
  Result<std::unique_ptr<MailSegment>> make(std::size_t) override {
    return Status{Code::kSystem, "none"};
  }
  Result<std::unique_ptr<MailSegment>> open(const std::string&, std::size_t) override {
    return Status{Code::kSystem, "none"};
  }
  MemoryOwner self() const override { return {}; }
  std::shared_ptr<ProcessMemory> reach(const MemoryOwner&) override { return nullptr; }
};

void try_hello(Input& input) {
  const auto bytes = input.take(1 << 16);
  const auto hello = decode_mail_hello(bytes);
  if (!hello.is_ok()) return;
  insist(std::ranges::equal(encode(hello.value()), bytes));
}

// What this rank does, and what it hears of the other one.
class Office {
 public:
  Office() {
    const std::array<Rank, 2> members{kSelf, kOther};
    insist(core_.open({7}, members).is_ok());
    ways_.seat(kOther, std::nullopt);
  }
  ~Office() {
    ways_.end({Code::kAborted, "the input has ended"});
    for (const auto& request : requests_) insist(request->is_done());
  }

  void step(Input& input) {
    const std::uint8_t what = input.byte();
    switch (what % 8) {
      case 0: return send(input);
      case 1: return receive(input);
      case 2: return probe(input);
      case 3: return cancel(input);
      case 4: return ways_.relink(kOther, std::nullopt);
      default: return hear(input, (what & 0x80) != 0);
    }
  }
  void look() {
    ways_.progress();
    MailOutgoing outgoing;
    ways_.take_outgoing(outgoing);
    const auto backlog = core_.backlog();
    insist(backlog.bytes <= kLimits.bytes);
    insist(backlog.messages <= kLimits.messages);
  }

 private:
  static constexpr std::size_t kMostRequests = 64;

  MailRequest* request() {
    if (requests_.size() >= kMostRequests) return nullptr;
    return requests_.emplace_back(std::make_unique<MailRequest>()).get();
  }
  // Memory of just that size, so that a byte beyond it is found.
  std::span<std::byte> memory(Input& input) {
    const std::size_t bytes = std::size_t{input.byte()} * 4;
    return {rooms_.emplace_back(std::make_unique<std::byte[]>(bytes)).get(), bytes};
  }
  MailRoom room(Input& input) {
    const std::span<std::byte> bytes = memory(input);
    return {bytes.data(), bytes.size(), nullptr};
  }
  void send(Input& input) {
    MailRequest* made = request();
    if (made == nullptr) return;
    const std::uint8_t mode = input.byte();
    const std::uint8_t tag = input.byte();
    const std::span<std::byte> bytes = memory(input);
    core_.send(*made, {{7},
                       kOther,
                       tag,
                       mode % 2 == 0 ? SendMode::kStandard : SendMode::kSynchronous,
                       {bytes.data(), bytes.size(), nullptr}});
  }
  void receive(Input& input) {
    MailRequest* made = request();
    if (made == nullptr) return;
    const std::uint8_t open = input.byte();
    const MailPattern pattern{
        {7}, open % 2 == 0 ? kOther : kAnyMailSource, open % 4 < 2 ? kAnyTag : input.byte()};
    core_.receive(*made, pattern, room(input));
  }
  void probe(Input& input) {
    const auto found = core_.probe({{7}}, true);
    if (!found.is_ok() || found.value() == nullptr) return;
    MailRequest* made = request();
    if (made == nullptr) return;
    core_.receive_matched(*made, *found.value(), room(input));
  }
  void cancel(Input& input) {
    if (requests_.empty()) return;
    MailRequest& one = *requests_[input.byte() % requests_.size()];
    if (!one.is_done()) core_.cancel(one);
  }
  // A frame with the number that is due, unless it comes raw.
  void hear(Input& input, bool raw) {
    struct {
      std::uint64_t number;
      std::uint64_t heard;
    } front{++number_, input.byte()};
    const std::size_t length = input.byte();
    auto bytes = input.take(raw ? length : kMailHeaderBytes + length);
    std::vector<std::byte> frame;
    if (!raw) {
      frame.resize(sizeof front);
      std::memcpy(frame.data(), &front, sizeof front);
    }
    frame.insert(frame.end(), bytes.begin(), bytes.end());
    ways_.hear(kOther, frame);
  }

  std::vector<std::unique_ptr<MailRequest>> requests_;
  std::vector<std::unique_ptr<std::byte[]>> rooms_;
  NoMemory memory_;
  MailCore core_{kSelf, 2, kLimits};
  MailWays ways_{core_, memory_};
  std::uint64_t number_ = 0;
};

void try_link(Input& input) {
  Office office;
  while (!input.ended()) {
    office.step(input);
    office.look();
  }
}

// Frames go into a ring, of which the other end changes what it likes.
void try_ring(Input& input) {
  constexpr std::size_t kBytes = mail_ring_memory(kLeastMailRing);
  struct alignas(kMailLine) Memory {
    std::array<std::byte, kBytes> bytes{};
  };
  const auto memory = std::make_unique<Memory>();
  MailRingWriter writer(memory->bytes.data(), kLeastMailRing);
  MailRingReader reader(memory->bytes.data(), kLeastMailRing);
  bool sound = true;
  while (!input.ended()) {
    const std::uint8_t what = input.byte();
    if (what % 4 == 0) {
      const auto payload = std::uint32_t{input.byte()} * 16;
      std::byte* to = writer.begin({MailKind::kEager, {1}, 2, payload});
      if (to != nullptr) std::fill_n(to, payload, std::byte{1});
      if (to != nullptr) writer.commit();
    } else if (what % 4 == 1) {
      const std::size_t at = std::size_t{input.byte()} * 256 + input.byte();
      memory->bytes[at % kBytes] = std::byte{input.byte()};
    } else if (sound) {
      const auto mail = reader.peek();
      sound = mail.is_ok();
      if (!sound || !mail.value()) continue;
      const auto payload = mail.value()->payload;
      insist(payload.data() >= memory->bytes.data());
      insist(payload.data() + payload.size() <= memory->bytes.data() + kBytes);
      reader.consume();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(std::as_bytes(std::span(data, size)));
  switch (input.byte() % 3) {
    case 0: try_hello(input); break;
    case 1: try_link(input); break;
    default: try_ring(input); break;
  }
  return 0;
}
