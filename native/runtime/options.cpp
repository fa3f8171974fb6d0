#include "runtime/options.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "comm/plan/plan_table.h"
#include "runtime/option_table.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMaxPlanBytes = 16U << 20;

}  // namespace

Result<comm::PlanTable> read_plan(const Options& options) {
  if (options.plan.empty()) return comm::PlanTable{};
  const auto refuse = [&](const std::string& why) {
    const OptionRow* row = find_option("plan");
    return refuse_option(*row, options.plan + ": " + why, row->accepted);
  };
  std::ifstream file(options.plan, std::ios::binary);
  if (!file) {
    if (errno == ENOENT && options.tune) return comm::PlanTable{};
    return refuse(std::strerror(errno));
  }
  std::string text(kMaxPlanBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refuse("cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxPlanBytes) {
    return refuse("more than 16 MiB");
  }
  auto table = comm::PlanTable::parse(text);
  if (!table.is_ok()) {
    return refuse(table.status().message());
  }
  return table;
}

// Lists the options that are always compared first, then those that are only listed if set.
std::string settings_text(const Options& options, const comm::PlanTable& plan) {
  const Options usual;
  std::string always;
  std::string set;
  for (const OptionRow& row : option_table()) {
    if (row.agreement == Agreement::kNone) continue;
    const bool instead = row.agreed != nullptr;
    const std::string value = instead ? row.agreed(options, plan) : option_text(row, options);
    const std::string text = ", " + std::string(row.name) + ": " + value;
    if (row.agreement == Agreement::kAlways) {
      always += text;
    } else if (value != (instead ? "" : option_text(row, usual))) {
      set += text;
    }
  }
  return (always + set).substr(2);
}

Status validate(const Options& options) {
  for (const OptionRow& row : option_table()) TRY(check_option(row, options));
  return Status::ok();
}

}  // namespace holdfast::runtime
