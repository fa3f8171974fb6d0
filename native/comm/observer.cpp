#include "comm/observer.h"

#include <array>

namespace holdfast::comm {

std::string_view op_path_name(OpPath path) {
  constexpr std::array<std::string_view, kOpPathCount> kNames = {
      "none", "flat", "slices", "schedule", "repair", "message", "direct", "coded", "levels"};
  return kNames.at(static_cast<std::size_t>(path));
}

std::string_view loss_cause_name(LossCause cause) {
  constexpr std::array<std::string_view, kLossCauseCount> kNames = {"died", "silent", "cut",
                                                                    "left"};
  return kNames.at(static_cast<std::size_t>(cause));
}

}  // namespace holdfast::comm
