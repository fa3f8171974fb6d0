#include "option_fields.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <variant>

#include "base/check.h"
#include "runtime/option_table.h"

namespace holdfast::c {
namespace {

using runtime::OptionRow;
using runtime::Options;

// A time is in nanoseconds; 0 means the default, and -1 means 0 where the option accepts 0.
template <class S>
using MemberOf =
    std::variant<const char * S::*, std::int64_t S::*, std::uint16_t S::*, std::uint64_t S::*,
                 std::int32_t S::*, hf_peer_loss S::*, hf_on_hole S::*, hf_trust_resets S::*>;

template <class S>
struct StructField {
  std::string_view name;  // the option's name
  MemberOf<S> member;
  bool inverted = false;     // the flag is the negated option
  bool zero_counts = false;  // for sizes: 0 is a value, not the default
  std::array<const char*, 2> enumerators{};
};

constexpr auto kFields = std::to_array<StructField<hf_options>>({
    {"transports", &hf_options::transports},
    {"timeout", &hf_options::timeout_ns},
    {"connect_timeout", &hf_options::connect_timeout_ns},
    {"address", &hf_options::address},
    {"port", &hf_options::port},
    {"host_id", &hf_options::host_id},
    {"algorithm", &hf_options::algorithm},
    {.name = "fault_tolerance", .member = &hf_options::no_fault_tolerance, .inverted = true},
    {.name = "on_peer_loss",
     .member = &hf_options::on_peer_loss,
     .enumerators = {"HF_CONTINUE", "HF_RAISE"}},
    {"heartbeat", &hf_options::heartbeat_ns},
    {"coordinator", &hf_options::coordinator},
    {"plan", &hf_options::plan},
    {"tune", &hf_options::tune},
    {"http", &hf_options::http},
    {"flight_dir", &hf_options::flight_dir},
    {"codec", &hf_options::codec},
    {.name = "codec_min_bytes", .member = &hf_options::codec_min_bytes, .zero_counts = true},
    {"time_slice", &hf_options::time_slice_ns},
    {.name = "on_hole",
     .member = &hf_options::on_hole,
     .enumerators = {"HF_HOLE_RAISE", "HF_HOLE_ZERO"}},
    {"silence", &hf_options::silence_ns},
    {.name = "trust_resets",
     .member = &hf_options::trust_resets,
     .enumerators = {"HF_TRUST_NONE", "HF_TRUST_LAN"}},
    {"topology", &hf_options::topology},
    {"domain", &hf_options::domain},
    {"secret_file", &hf_options::secret_file},
    {"http_credentials", &hf_options::http_credentials},
    {"http_cert", &hf_options::http_cert},
    {"http_key", &hf_options::http_key},
    {"audit_file", &hf_options::audit_file},
    {"http_insecure", &hf_options::http_insecure},
    {"grace", &hf_options::grace_ns},
    {"witness", &hf_options::witness},
    {"trunk", &hf_options::trunk},
    {"lanes", &hf_options::lanes},
    {"relay", &hf_options::relay},
    {"mesh", &hf_options::mesh},
});

constexpr auto kDeviceFields = std::to_array<StructField<hf_device_options>>({
    {"cuda_driver", &hf_device_options::cuda_driver},
    {"cuda_slice_bytes", &hf_device_options::cuda_slice_bytes},
    {"cuda_ipc", &hf_device_options::cuda_ipc},
    {"cuda_ipc_min_bytes", &hf_device_options::cuda_ipc_min_bytes},
    {"cuda_codec", &hf_device_options::cuda_codec},
    {"cuda_codec_min_bytes", &hf_device_options::cuda_codec_min_bytes},
});

template <class S>
const OptionRow& row_of(const StructField<S>& field) {
  const OptionRow* row = runtime::find_option(field.name);
  CHECK(row != nullptr);
  return *row;
}

template <class S>
Status refuse_enumerator(const StructField<S>& field, int value) {
  return {Code::kConfigError, std::string(field.name) + " " + std::to_string(value) +
                                  "; accepted: " + field.enumerators[0] + " (0), " +
                                  field.enumerators[1] + " (1)"};
}

// Converts a value of the struct to the option's.
template <class S, class From, class To>
Status take(const StructField<S>& field, const From& from, To& to) {
  if constexpr (std::is_same_v<From, std::int64_t> && std::is_same_v<To, Duration>) {
    const bool is_off = row_of(field).or_zero && from < 0;
    if (from != 0) to = Duration(is_off ? 0 : from);
  } else if constexpr (std::is_same_v<From, std::int32_t> && std::is_same_v<To, bool>) {
    to = (from != 0) != field.inverted;
  } else if constexpr (std::is_enum_v<From> && std::is_enum_v<To>) {
    // A C program may have stored any number, which C++ must not read as the enumeration.
    int value = 0;
    static_assert(sizeof from == sizeof value);
    std::memcpy(&value, &from, sizeof value);
    if (value != 0 && value != 1) return refuse_enumerator(field, value);
    to = static_cast<To>(value);
  } else if constexpr (std::is_unsigned_v<From> && std::is_same_v<From, To>) {
    if (from != 0 || field.zero_counts) to = from;
  } else {
    CHECK(false);  // the field's type does not match its option's
  }
  return Status::ok();
}

// Converts an option's value to the struct's.
template <class S, class From, class To>
void give(const StructField<S>& field, const From& from, To& to) {
  if constexpr (std::is_same_v<From, Duration> && std::is_same_v<To, std::int64_t>) {
    to = from == Duration::zero() ? -1 : from.count();
  } else if constexpr (std::is_same_v<From, bool> && std::is_same_v<To, std::int32_t>) {
    to = from != field.inverted ? 1 : 0;
  } else if constexpr (std::is_enum_v<From> && std::is_enum_v<To>) {
    to = static_cast<To>(from);
  } else if constexpr (std::is_unsigned_v<From> && std::is_same_v<From, To>) {
    to = from;
  } else {
    CHECK(false);
  }
}

template <class S>
const char* const* text_of(const StructField<S>& field, const S& from) {
  const auto* member = std::get_if<const char * S::*>(&field.member);
  return member == nullptr ? nullptr : &(from.**member);
}

template <class S>
Status take_field(const StructField<S>& field, const S& from, Options& to) {
  const OptionRow& row = row_of(field);
  if (const char* const* text = text_of(field, from)) {
    if (*text == nullptr || **text == '\0') return Status::ok();
    if (const auto* member = std::get_if<std::string Options::*>(&row.field)) {
      to.** member = *text;  // validate() checks the value and names the option
      return Status::ok();
    }
    return read_option(row, *text, to);
  }
  return std::visit([&](auto of, auto option) { return take(field, from.*of, to.*option); },
                    field.member, row.field);
}

template <class S>
void give_field(const StructField<S>& field, const Options& from, S& to) {
  if (text_of(field, to) != nullptr) return;  // a string has no owner here
  std::visit([&](auto of, auto option) { give(field, from.*option, to.*of); }, field.member,
             row_of(field).field);
}

template <class S, std::size_t kCount>
Status read_fields(const std::array<StructField<S>, kCount>& fields, S& to) {
  for (const StructField<S>& field : fields) {
    const OptionRow& row = row_of(field);
    const char* text = std::getenv(option_variable(row).c_str());
    if (text == nullptr || *text == '\0') continue;
    Options read;
    TRY(read_option(row, text, read));
    give_field(field, read, to);
    if (const auto* member = std::get_if<const char * S::*>(&field.member)) to.** member = text;
  }
  return Status::ok();
}

// No struct of either name ever ended before its second field.
constexpr std::size_t kLeast = sizeof(std::size_t) + sizeof(const char*);
static_assert(kLeast == offsetof(hf_options, timeout_ns));
static_assert(kLeast == offsetof(hf_device_options, cuda_slice_bytes));

template <class S>
struct NamesOf;
template <>
struct NamesOf<hf_options> {
  static constexpr const char* kStruct = "hf_options";
  static constexpr const char* kAdvice = "call hf_options_init(), which sets it to ";
};
template <>
struct NamesOf<hf_device_options> {
  static constexpr const char* kStruct = "hf_device_options";
  static constexpr const char* kAdvice = "set it to sizeof(hf_device_options), ";
};

template <class S>
Status check_size(std::size_t size) {
  if (size >= kLeast && size <= sizeof(S)) return Status::ok();
  const char* newer = "; the program was compiled with the header of a newer library, or: ";
  return {Code::kConfigError, std::string(NamesOf<S>::kStruct) + ".size is " +
                                  std::to_string(size) + (size < kLeast ? "; " : newer) +
                                  NamesOf<S>::kAdvice + std::to_string(sizeof(S))};
}

hf_options defaults_of(const hf_options&) {
  hf_options options = {};
  options.transports = "shm,tcp";
  const Options defaults;
  for (const auto& field : kFields) give_field(field, defaults, options);
  return options;
}

// Zeros are what every field of it has by default.
hf_device_options defaults_of(const hf_device_options&) { return {}; }

// What the caller's struct has, which is smaller where an older header declares it, and defaults.
template <class S>
Result<S> whole_struct(const S& from) {
  TRY(check_size<S>(from.size));
  S whole = defaults_of(from);
  std::memcpy(&whole, &from, from.size);
  return whole;
}

template <class S, std::size_t kCount>
Status read_sized(const std::array<StructField<S>, kCount>& fields, S& to) {
  auto whole = whole_struct(to);
  if (!whole.is_ok()) return whole.status();
  TRY(read_fields(fields, whole.value()));
  std::memcpy(&to, &whole.value(), to.size);
  return Status::ok();
}

}  // namespace

Status set_defaults(hf_options& options, std::size_t size) {
  TRY(check_size<hf_options>(size));
  hf_options whole = defaults_of(options);
  whole.size = size;
  std::memcpy(&options, &whole, size);
  return Status::ok();
}

Status read_environment(hf_options& options) { return read_sized(kFields, options); }

Status read_environment(hf_device_options& options) { return read_sized(kDeviceFields, options); }

Result<Options> native_options(const hf_options* options, const hf_device_options* devices) {
  Options to;
  if (options != nullptr) {
    auto whole = whole_struct(*options);
    if (!whole.is_ok()) return whole.status();
    for (const auto& field : kFields) TRY(take_field(field, whole.value(), to));
  }
  if (devices != nullptr) {
    auto whole = whole_struct(*devices);
    if (!whole.is_ok()) return whole.status();
    for (const auto& field : kDeviceFields) TRY(take_field(field, whole.value(), to));
  }
  return to;
}

}  // namespace holdfast::c
