#include "runtime/options.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "comm/plan/plan_table.h"
#include "runtime/option_table.h"
#include "topology/link_map.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kMostFileBytes = 16U << 20;

// `error`: the system's number where the file cannot be opened.
Result<std::string> read_file(const std::string& name, int* error) {
  const auto refused = [](const char* why) { return Status{Code::kConfigError, why}; };
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    *error = errno;
    return refused(std::strerror(*error));
  }
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refused("cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostFileBytes) return refused("more than 16 MiB");
  return text;
}

}  // namespace

Result<comm::PlanTable> read_plan(const Options& options) {
  if (options.plan.empty()) return comm::PlanTable{};
  const auto refuse = [&](const std::string& why) {
    const OptionRow* row = find_option("plan");
    return refuse_option(*row, options.plan + ": " + why, row->accepted);
  };
  int error = 0;
  auto text = read_file(options.plan, &error);
  if (error == ENOENT && options.tune) return comm::PlanTable{};
  if (!text.is_ok()) return refuse(text.status().message());
  auto table = comm::PlanTable::parse(text.value());
  if (!table.is_ok()) return refuse(table.status().message());
  return table;
}

Result<std::shared_ptr<const topology::LinkMap>> read_map(const Options& options) {
  if (options.topology.empty()) return std::shared_ptr<const topology::LinkMap>();
  const auto refuse = [&](const std::string& why) {
    const OptionRow* row = find_option("topology");
    return refuse_option(*row, options.topology + ": " + why, row->accepted);
  };
  int error = 0;
  auto text = read_file(options.topology, &error);
  if (!text.is_ok()) return refuse(text.status().message());
  auto map = topology::LinkMap::parse(text.value());
  if (!map.is_ok()) return refuse(map.status().message());
  return std::make_shared<const topology::LinkMap>(std::move(map).value());
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

bool is_sealed(const Options& options) {
  return !options.secret_file.empty() || !options.token_file.empty() || !options.token.empty() ||
         !options.tls_cert.empty();
}

Duration silence_of(const Options& options) {
  return is_sealed(options) ? options.grace : options.silence;
}

ft::Mesh mesh_of(const Options& options) {
  if (options.mesh == "full") return ft::Mesh::kFull;
  return options.mesh == "sparse" ? ft::Mesh::kSparse : ft::Mesh::kAuto;
}

Status validate(const Options& options) {
  for (const OptionRow& row : option_table()) TRY(check_option(row, options));
  return Status::ok();
}

}  // namespace holdfast::runtime
