#include "secure/testimony.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"

namespace holdfast::secure {
namespace {

constexpr std::string_view kMark = "\xf7HFEnded";
constexpr std::string_view kEnded = "holdfast process has ended";

std::vector<std::byte> text_of(MemberId ended) {
  Writer out;
  out.number(ended.value);
  return out.take();
}

}  // namespace

std::optional<Testimony> parse_testimony(std::span<const std::byte> bytes) {
  const auto mark = std::as_bytes(std::span(kMark));
  if (bytes.size() != kTestimonyBytes || !std::ranges::equal(bytes.first(mark.size()), mark)) {
    return std::nullopt;
  }
  Reader in(bytes.subspan(mark.size()));
  Testimony said{{in.number<std::uint64_t>()}, {}};
  std::ranges::copy(bytes.last(kSignatureBytes), said.signature.begin());
  return said;
}

Result<std::array<std::byte, kTestimonyBytes>> testify(const Identity& witness, MemberId ended) {
  const auto text = text_of(ended);
  const auto signature = sign(witness, kEnded, text);
  if (!signature.is_ok()) return signature.status();
  std::array<std::byte, kTestimonyBytes> said{};
  auto at = said.begin();
  for (const std::span<const std::byte> part :
       {std::as_bytes(std::span(kMark)), std::span<const std::byte>(text),
        std::span<const std::byte>(signature.value())}) {
    at = std::copy(part.begin(), part.end(), at);
  }
  return said;
}

bool is_true(const Testimony& testimony, const PublicKey& witness) {
  return is_signed(witness, kEnded, text_of(testimony.ended), testimony.signature);
}

}  // namespace holdfast::secure
