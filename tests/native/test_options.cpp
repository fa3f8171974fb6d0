// The table of options: what it says of itself, what is read from texts, and what it is made into:
// the page of the reference, and the structs of the C interface.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "compress/codec.h"
#include "holdfast/holdfast_device.h"
#include "option_fields.h"
#include "runtime/option_table.h"

namespace holdfast::runtime {
namespace {

std::string message(const Status& status) { return status.is_ok() ? "" : status.message(); }

std::string refusal(std::string_view name, const std::string& text) {
  Options options;
  return message(read_option(*find_option(name), text, options));
}

TEST_CASE("every option has a name and a doc of its own, and a default that its check accepts") {
  std::set<std::string_view> names;
  std::set<std::string_view> docs;
  for (const OptionRow& row : option_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(docs.insert(row.doc).second);
    CHECK((row.doc.size() > 20 && row.doc.ends_with('.')));
    CHECK(message(check_option(row, Options{})).empty());
    CHECK(find_option(row.name) == &row);
  }
  CHECK(find_option("silense") == nullptr);
}

TEST_CASE("what an option's text says is what is read from it") {
  for (const OptionRow& row : option_table()) {
    CAPTURE(row.name);
    const std::string text = option_text(row, Options{});
    Options options;
    CHECK(message(text.empty() ? Status::ok() : read_option(row, text, options)).empty());
    CHECK(option_text(row, options) == text);
  }
  Options options;
  const auto read = [&](std::string_view name, const std::string& text) {
    CHECK(message(read_option(*find_option(name), text, options)).empty());
  };
  read("transports", "shm, ucx");
  CHECK(options.transports == std::vector<std::string>{"shm", "ucx"});
  read("silence", "2.5");
  CHECK(options.silence == std::chrono::milliseconds(2500));
  read("time_slice", "0");
  CHECK(options.time_slice == Duration::zero());
  read("on_hole", "zero");
  CHECK(options.on_hole == comm::OnHole::kZero);
  read("fault_tolerance", "0");
  CHECK(!options.fault_tolerance);
  read("port", "65535");
  CHECK(options.port == 65535);
}

TEST_CASE("grace stands for silence where there is a secret, a token or a certificate") {
  using std::chrono::seconds;
  Options options;
  options.silence = seconds(4);
  options.grace = seconds(3);
  CHECK(silence_of(options) == seconds(4));
  for (std::string Options::*way :
       {&Options::secret_file, &Options::token_file, &Options::token, &Options::tls_cert}) {
    Options sealed = options;
    sealed.*way = "something";
    CHECK(is_sealed(sealed));
    CHECK(silence_of(sealed) == seconds(3));
    sealed.trust_resets = ResetTrust::kLan;
    CHECK(message(check_option(*find_option("trust_resets"), sealed)) ==
          "option trust_resets = \"lan\" beside a secret, a token or a certificate; accepted: "
          "\"none\": anybody may close a connection, so with a secret it proves nothing");
  }
  // A long heartbeat is refused because of the default only where that counts.
  options = {};
  options.heartbeat = seconds(10);
  options.silence = seconds(30);
  CHECK(message(check_option(*find_option("grace"), options)).empty());
  options.secret_file = "something";
  CHECK(message(check_option(*find_option("grace"), options)) ==
        "option grace = 15000000000 ns; accepted: three heartbeats (30000000000 ns) to one year");
}

TEST_CASE("a text without a value is refused by its variable's name, with what is accepted") {
  CHECK(
      refusal("timeout", "soon") ==
      "HOLDFAST_TIMEOUT = \"soon\"; accepted: a number of seconds, more than 0, at most one year");
  CHECK(refusal("timeout", "0") != "");
  CHECK(refusal("timeout", "nan") != "");
  CHECK(refusal("timeout", "1e300") != "");
  CHECK(refusal("time_slice", "0.00001") != "");
  CHECK(refusal("port", "65536") ==
        "HOLDFAST_PORT = \"65536\"; accepted: a whole number, 0 to 65535");
  CHECK(refusal("port", "80 ") != "");
  CHECK(refusal("tune", "yes") == "HOLDFAST_TUNE = \"yes\"; accepted: 1 or 0");
  CHECK(refusal("on_peer_loss", "stop") ==
        "HOLDFAST_ON_PEER_LOSS = \"stop\"; accepted: \"continue\" or \"raise\"");
  CHECK(refusal("cuda_ipc", "on") == "HOLDFAST_CUDA_IPC = \"on\"; accepted: \"auto\" or \"off\"");
  CHECK(refusal("cuda_slice_bytes", "-1") ==
        "HOLDFAST_CUDA_SLICE_BYTES = \"-1\"; accepted: 4096 to 1073741824 bytes");
}

TEST_CASE("a value that cannot be used is refused by its option's name, with what is accepted") {
  const auto refused = [](auto change) {
    Options options;
    change(options);
    return message(validate(options));
  };
  CHECK(refused([](Options& o) { o.timeout = Duration::zero(); }) ==
        "option timeout = 0 ns; accepted: more than 0, at most one year");
  CHECK(refused([](Options& o) { o.heartbeat = Duration(-1); }) ==
        "option heartbeat = -1 ns; accepted: 1 millisecond to 1 hour");
  CHECK(refused([](Options& o) { o.silence = std::chrono::seconds(1); }) ==
        "option silence = 1000000000 ns; accepted: three heartbeats (1500000000 ns) to one year");
  CHECK(refused([](Options& o) { o.grace = std::chrono::seconds(1); }) ==
        "option grace = 1000000000 ns; accepted: three heartbeats (1500000000 ns) to one year");
  CHECK(refused([](Options& o) { o.cuda_ipc_min_bytes = 0; }) ==
        "option cuda_ipc_min_bytes = 0; accepted: 1 byte or more");
  CHECK(refused([](Options& o) { o.cuda_driver = "mine"; }) ==
        "option cuda_driver = \"mine\"; accepted: empty (the system's), \"emulated\" or \"none\"");
  CHECK(refused([](Options& o) { o.address = "::"; }) ==
        "option address = ::; accepted: empty (all interfaces) or the numeric address of one "
        "interface");
  CHECK(refused([](Options& o) { o.tune = true, o.algorithm = "ring"; }) ==
        "option algorithm = \"ring\" together with plan or tune; accepted: one of them: they "
        "choose the algorithm, too");
}

TEST_CASE("ranks compare what they must have alike, and are told the rest only where it is set") {
  Options options;
  CHECK(settings_text(options, {}) ==
        "algorithm: by itself, plan: none, tune: 0, fault_tolerance: 1, on_peer_loss: continue, "
        "on_hole: raise, codec: none");
  options.cuda_ipc = "off";
  options.codec = "int8";
  options.on_hole = comm::OnHole::kZero;
  options.timeout = std::chrono::seconds(3);
  CHECK(settings_text(options, {}) ==
        "algorithm: by itself, plan: none, tune: 0, fault_tolerance: 1, on_peer_loss: continue, "
        "on_hole: zero, codec: " +
            compress::Codec::parse("int8").value().text() + " from 65536 bytes, cuda_ipc: off");
}

TEST_CASE("the page of the reference is what the table gives; `make reference` writes it") {
  std::ifstream file(OPTIONS_PAGE, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  CHECK(page == options_page());
}

// A copy that ends where the struct of an older header ended, so that a reader beyond it is found.
std::unique_ptr<std::byte[]> cut_struct(hf_options options, std::size_t size) {
  options.size = size;
  auto copy = std::make_unique<std::byte[]>(size);
  std::memcpy(copy.get(), &options, size);
  return copy;
}

TEST_CASE("a struct of an older header is taken, and what it lacks has its default") {
  hf_options options{};
  REQUIRE(c::set_defaults(options, sizeof options).is_ok());
  options.heartbeat_ns = 7'000'000;
  options.codec_min_bytes = 0;
  options.silence_ns = 99;  // beyond the end
  options.trust_resets = HF_TRUST_LAN;
  const auto old = cut_struct(options, offsetof(hf_options, silence_ns));
  const auto taken = c::native_options(reinterpret_cast<const hf_options*>(old.get()), nullptr);
  REQUIRE(taken.is_ok());
  CHECK(taken.value().heartbeat == std::chrono::milliseconds(7));
  CHECK(taken.value().codec_min_bytes == 0);
  CHECK(taken.value().silence == Options{}.silence);
  CHECK(taken.value().trust_resets == ResetTrust::kNone);

  const auto first = cut_struct(options, offsetof(hf_options, timeout_ns));
  const auto least = c::native_options(reinterpret_cast<const hf_options*>(first.get()), nullptr);
  REQUIRE(least.is_ok());
  CHECK(least.value().heartbeat == Options{}.heartbeat);
  CHECK(least.value().codec_min_bytes == Options{}.codec_min_bytes);
}

// A struct of this size, and bytes behind it that belong to somebody else.
template <class S>
struct Cut {
  explicit Cut(std::size_t least) : size(least) {
    std::memset(bytes, 0x5a, sizeof bytes);
    std::memset(bytes, 0, size);
    std::memcpy(bytes, &size, sizeof size);
  }
  S* get() { return reinterpret_cast<S*>(bytes); }
  bool is_untouched_behind() const {
    return std::all_of(bytes + size, bytes + sizeof bytes,
                       [](unsigned char byte) { return byte == 0x5a; });
  }
  S whole() const {
    S read{};
    std::memcpy(&read, bytes, size);
    return read;
  }

  std::size_t size;
  alignas(S) unsigned char bytes[sizeof(S) + 64];
};

TEST_CASE("nothing is written behind a struct that an older header declares") {
  constexpr std::size_t kOld = offsetof(hf_options, silence_ns);
  Cut<hf_options> options(kOld);
  REQUIRE(hf_options_init_sized(options.get(), kOld) == HF_OK);
  CHECK(options.is_untouched_behind());
  CHECK(options.whole().size == kOld);
  CHECK(options.whole().timeout_ns == Options().timeout.count());

  REQUIRE(::setenv("HOLDFAST_SILENCE", "33", 1) == 0);
  REQUIRE(::setenv("HOLDFAST_TIMEOUT", "44", 1) == 0);
  REQUIRE(hf_options_from_env_sized(options.get(), kOld) == HF_OK);
  CHECK(options.is_untouched_behind());
  CHECK(options.whole().timeout_ns == 44'000'000'000);
  const auto taken = c::native_options(options.get(), nullptr);
  REQUIRE(taken.is_ok());
  CHECK(taken.value().timeout == std::chrono::seconds(44));
  CHECK(taken.value().silence == Options().silence);

  // The functions that old programs call fill what there was then.
  Cut<hf_options> before(c::kOptionsBefore8);
  REQUIRE((hf_options_from_env)(before.get()) == HF_OK);
  CHECK(before.is_untouched_behind());
  CHECK(before.whole().size == c::kOptionsBefore8);
  CHECK(before.whole().silence_ns == 33'000'000'000);
  REQUIRE((hf_options_init)(before.get()) == HF_OK);
  CHECK(before.is_untouched_behind());
  CHECK(before.whole().silence_ns == Options().silence.count());
  ::unsetenv("HOLDFAST_SILENCE");
  ::unsetenv("HOLDFAST_TIMEOUT");
}

TEST_CASE("the header's names pass on the size that the program was compiled with") {
  hf_options options;
  REQUIRE(hf_options_init(&options) == HF_OK);
  CHECK(options.size == sizeof(hf_options));
  REQUIRE(hf_options_from_env(&options) == HF_OK);
  CHECK(options.size == sizeof(hf_options));
  CHECK(hf_options_init_sized(&options, sizeof options + 8) == HF_CONFIG_ERROR);
  CHECK(std::string(hf_last_error()).find("the header of a newer library") != std::string::npos);
  CHECK(hf_options_init_sized(&options, 3) == HF_CONFIG_ERROR);
}

TEST_CASE("a struct of device options of an older header is taken and filled, none of a newer") {
  constexpr std::size_t kOld = offsetof(hf_device_options, cuda_codec);
  REQUIRE(::setenv("HOLDFAST_CUDA_CODEC", "off", 1) == 0);
  REQUIRE(::setenv("HOLDFAST_CUDA_SLICE_BYTES", "8192", 1) == 0);
  Cut<hf_device_options> devices(kOld);
  REQUIRE(hf_device_options_from_env(devices.get()) == HF_OK);
  ::unsetenv("HOLDFAST_CUDA_CODEC");
  ::unsetenv("HOLDFAST_CUDA_SLICE_BYTES");
  CHECK(devices.is_untouched_behind());
  CHECK(devices.whole().cuda_slice_bytes == 8192);
  const auto taken = c::native_options(nullptr, devices.get());
  REQUIRE(taken.is_ok());
  CHECK(taken.value().cuda_slice_bytes == 8192);
  CHECK(taken.value().cuda_codec == Options().cuda_codec);

  hf_device_options newer{};
  newer.size = sizeof newer + 8;
  CHECK(hf_device_options_from_env(&newer) == HF_CONFIG_ERROR);
  const std::string text = c::native_options(nullptr, &newer).status().message();
  CHECK(text.find("hf_device_options.size is " + std::to_string(newer.size)) == 0);
  CHECK(text.find("the header of a newer library") != std::string::npos);
}

TEST_CASE("a struct of a newer header, or of no size, is refused by name") {
  hf_options options{};
  REQUIRE(c::set_defaults(options, sizeof options).is_ok());
  CHECK(c::native_options(&options, nullptr).is_ok());
  options.size = sizeof options + 8;
  const std::string text = c::native_options(&options, nullptr).status().message();
  CHECK(text.find("hf_options.size is " + std::to_string(options.size)) == 0);
  CHECK(text.find("hf_options_init()") != std::string::npos);
  options.size = 0;
  CHECK(c::native_options(&options, nullptr).status().message().find("hf_options.size is 0") == 0);
}

TEST_CASE("the struct of the C interface says what the options say") {
  hf_options options{};
  REQUIRE(c::set_defaults(options, sizeof options).is_ok());
  Options usual;
  const auto same = c::native_options(&options, nullptr);
  REQUIRE(same.is_ok());
  for (const OptionRow& row : option_table()) {
    CAPTURE(row.name);
    CHECK(option_text(row, same.value()) == option_text(row, usual));
  }
  options.time_slice_ns = -1;
  options.no_fault_tolerance = 1;
  options.on_hole = HF_HOLE_ZERO;
  options.domain = "site-a/rack-2";
  hf_device_options devices{};
  devices.size = sizeof devices;
  devices.cuda_ipc = "off";
  const auto other = c::native_options(&options, &devices);
  REQUIRE(other.is_ok());
  CHECK(other.value().time_slice == Duration::zero());
  CHECK(!other.value().fault_tolerance);
  CHECK(other.value().domain == "site-a/rack-2");
  CHECK(other.value().on_hole == comm::OnHole::kZero);
  CHECK(other.value().cuda_ipc == "off");
  CHECK(other.value().cuda_slice_bytes == usual.cuda_slice_bytes);
  const int unknown = 7;
  std::memcpy(&options.on_hole, &unknown, sizeof unknown);
  CHECK(c::native_options(&options, nullptr).status().message() ==
        "on_hole 7; accepted: HF_HOLE_RAISE (0), HF_HOLE_ZERO (1)");
}

}  // namespace
}  // namespace holdfast::runtime
