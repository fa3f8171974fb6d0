// The map of links as JSON: what is read can be planned for, if it is small, and is the same again.
#include <cstdint>
#include <string_view>

#include "topology/forest/plan.h"
#include "topology/link_map.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast::topology;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto map = LinkMap::parse(text);
  if (!map.is_ok()) {
    if (map.status().message().find('\n') != std::string::npos) __builtin_trap();
    return 0;
  }
  constexpr int kSmall = 6;
  if (map.value().size() > kSmall) return 0;
  if (LinkMap::parse(text).value().digest() != map.value().digest()) __builtin_trap();
  const auto plan = plan_forest(map.value(), {}, 1 << 20);
  if (!plan.is_ok() || plan.value().forest.trees.empty()) __builtin_trap();
  return 0;
}
