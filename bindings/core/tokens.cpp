#include "tokens.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "raise.h"
#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/sealer.h"
#include "runtime/rendezvous/secret_file.h"
#include "secure/hex.h"
#include "secure/testimony.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using runtime::Gatekeeper;

// (text, serial) of a new token of the first secret.
std::tuple<std::string, std::string> mint_token(const std::string& secret_files,
                                                const std::string& run, const std::string& role,
                                                std::int64_t not_after, std::uint32_t uses) {
  if (run == runtime::kHoldersRun) {
    raise_if({Code::kConfigError, "run \"" + run + "\" is for who has the secret itself"});
  }
  if (uses > Gatekeeper::kMostUses) {
    raise_if({Code::kConfigError, "uses " + std::to_string(uses) + "; accepted: 0 (any) to " +
                                      std::to_string(Gatekeeper::kMostUses)});
  }
  secure::TokenClaims claims;
  claims.serial = value_or_raise(runtime::random_serial());
  claims.run = run;
  claims.role = value_or_raise(secure::parse_role(role));
  claims.not_after = {not_after};
  claims.uses = uses;
  const auto ring = value_or_raise(
      secure::KeyRing::make(value_or_raise(runtime::read_secret_files(secret_files))));
  const std::string serial = serial_text(claims.serial);
  return {token_text(value_or_raise(ring.mint(std::move(claims)))), serial};
}

// Who starts processes, and testifies that they have ended.
struct WitnessKey {
  WitnessKey() : identity(value_or_raise(secure::Identity::generate())) {}
  secure::Identity identity;
};

nb::bytes testimony_of(const WitnessKey& witness, std::uint64_t member) {
  const auto said = value_or_raise(secure::testify(witness.identity, {member}));
  return nb::bytes(said.data(), said.size());
}

}  // namespace

void bind_tokens(nb::module_& m) {
  nb::class_<WitnessKey>(m, "WitnessKey")
      .def(nb::init<>())
      .def_prop_ro("public_key",
                   [](const WitnessKey& w) { return secure::hex(w.identity.public_key()); })
      .def("testimony", testimony_of, "member"_a);
  m.def(
      "make_secret_file",
      [](const std::string& path) { raise_if(runtime::make_secret_file(path)); }, "path"_a);
  m.def("mint_token", mint_token, "secret_files"_a, "run"_a, "role"_a, "not_after"_a, "uses"_a);
  m.def("token_serial", [](const std::string& text) {
    return serial_text(value_or_raise(secure::parse_token(text)).claims.serial);
  });
  m.def("check_serial",
        [](const std::string& text) { raise_if(secure::parse_serial(text).status()); });
}

}  // namespace holdfast::bindings
