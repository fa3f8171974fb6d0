#include "runtime/option_table.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/option_rows/rows.h"

namespace holdfast::runtime {
namespace {

// Room for twice the options there are.
constexpr std::size_t kMostRows = 64;

// Needs no destructor, so that threads may ask for it until the process is gone.
struct JoinedRows {
  std::array<OptionRow, kMostRows> rows{};
  std::size_t count = 0;
};

JoinedRows join() {
  JoinedRows all;
  for (const std::span<const OptionRow> part :
       {network_rows(), plans_rows(), faults_rows(), access_rows(), data_rows()}) {
    CHECK(all.count + part.size() <= kMostRows);
    std::ranges::copy(part, all.rows.begin() + static_cast<std::ptrdiff_t>(all.count));
    all.count += part.size();
  }
  return all;
}

}  // namespace

std::span<const OptionRow> option_table() {
  static const JoinedRows table = join();
  return {table.rows.data(), table.count};
}

}  // namespace holdfast::runtime
