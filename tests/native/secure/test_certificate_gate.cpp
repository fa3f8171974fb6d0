// Certificates at a coordinator's door: who is let in by one, beside those who come by tokens and
// by the secret; who is not, and what is told; and what changes when the files do. Real sockets of
// this host, real files, and its clock.
#include <doctest/doctest.h>

#include "lacking.h"

#ifdef HOLDFAST_OPENSSL
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "../sealed_door.h"
#include "openssl_peer.h"
#include "runtime/certificates/certificate_entry.h"
#include "runtime/rendezvous/gatekeeper.h"
#include "runtime/rendezvous/pass_holder.h"

namespace holdfast::runtime {
namespace {

using secure::CertificateWish;
using secure::Certified;
using secure::certify;
using testing::says;
using testing::SealedDoor;
using testing::SecretFile;

constexpr MemberId kCoordinator{2};

// An authority, and files of what it has signed, in a folder that goes when this does.
class Site {
 public:
  explicit Site(const std::string& name_of_it = "authority")
      : authority(certify(wish(name_of_it, true))) {
    std::string name = std::string(std::filesystem::temp_directory_path()) + "/holdfast-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
    write("ca.pem", authority.pem());
    write("roles", "member run7 CN=alice\nmember * CN=bob\nobserver run7 CN=carol\n");
    CertificateWish coordinator = wish("coordinator");
    coordinator.usage = "serverAuth";
    coordinator.hosts = "IP:127.0.0.1";
    issue("coordinator", coordinator);
  }
  ~Site() { std::filesystem::remove_all(folder_); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  static CertificateWish wish(const std::string& name, bool is_authority = false) {
    const std::int64_t now = unix_now().value;
    CertificateWish wish;
    wish.name = name;
    wish.is_authority = is_authority;
    wish.not_before = now - 3600;
    wish.not_after = now + 3600;
    return wish;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // Another file under the same name, as programs that replace files write it.
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name + ".new")) << text;
    REQUIRE(::chmod(path(name + ".new").c_str(), 0600) == 0);
    std::filesystem::rename(path(name + ".new"), path(name));
  }
  Options issue(const std::string& name, const CertificateWish& wish) const {
    const Certified made = certify(wish, &authority);
    write(name + ".pem", made.pem());
    write(name + ".key", made.key_pem());
    return options(name);
  }
  Options options(const std::string& name) const {
    Options options;
    options.coordinator = "127.0.0.1:29400";
    options.tls_cert = path(name + ".pem");
    options.tls_key = path(name + ".key");
    options.tls_ca = path("ca.pem");
    return options;
  }
  Options coordinators() const {
    Options options = this->options("coordinator");
    options.tls_roles = path("roles");
    return options;
  }
  // Revokes these numbers, in a list that has begun so many seconds from now, and ends.
  void revoke(const std::vector<long>& numbers, std::int64_t from = -60,
              std::int64_t until = 3600) {
    write("crl", secure::revocations_of(authority, numbers, unix_now().value + from,
                                        unix_now().value + until));
  }

  const Certified authority;

 private:
  std::string folder_;
};

std::shared_ptr<const Sealer> holder(const Options& options, const std::string& run = "run7",
                                     const std::string& host = "127.0.0.1") {
  auto made = PassHolder::make(enter_by_certificate(options, {run, {host}}), kCoordinator);
  REQUIRE_MESSAGE(made.is_ok(), made.status().message());
  return std::move(made).value();
}

std::shared_ptr<const Sealer> holder(const Site& site, const std::string& name, long number = 11,
                                     const std::string& run = "run7") {
  CertificateWish wish = Site::wish(name);
  wish.serial = number;
  return holder(site.issue(name, wish), run);
}

std::shared_ptr<const Sealer> token_holder(const SecretFile& secret) {
  secure::TokenClaims claims;
  claims.serial = random_serial().value();
  claims.run = "run7";
  claims.not_after = {unix_now().value + 60};
  const auto ring = secure::KeyRing::make(read_secret_files(secret.path()).value());
  auto token = ring.value().mint(std::move(claims));
  return PassHolder::make(enter_by_token(std::move(token).value()), kCoordinator).value();
}

struct Entrance {
  Entrance(const SecretFile& secret, const Options& options)
      : gate(Gatekeeper::open(secret.path(), CertificateGate::open(options).value()).value()),
        door(gate, kCoordinator) {}
  std::shared_ptr<Gatekeeper> gate;
  SealedDoor door;
};

void expect_in(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("who has a certificate is let in as a member of the run that it asks for") {
  if (secure::lacking()) return;
  const Site site;
  const SecretFile secret;
  Entrance at(secret, site.coordinators());
  const auto alice = holder(site, "alice");
  CHECK(at.door.refusal_of(*alice, {11}) == "");
  REQUIRE(at.gate->entrant({11}).has_value());
  CHECK(at.gate->entrant({11})->run == "run7");
  CHECK(at.gate->entrant({11})->facts().subject == "CN=alice");
  CHECK(at.gate->entrant({11})->facts().certificate == "0B");
  CHECK(at.gate->entrant({11})->facts().token.empty());
  CHECK(at.gate->entrant({11})->unwelcome.empty());
  // Any run is any one that is asked for.
  CHECK(at.door.refusal_of(*holder(site, "bob", 12, "run8"), {12}) == "");
  CHECK(at.gate->entrant({12})->run == "run8");
  // The secret and tokens still open the door, and strangers do not.
  CHECK(at.door.refusal_of(*secret.sealer(), {13}) == "");
  const auto by_token = token_holder(secret);
  CHECK(at.door.refusal_of(*by_token, {14}) == "");
  const SecretFile other;
  CHECK(at.door.refusal_of(*token_holder(other), {15}) != "");
  // Members know each other by their passes, however they came in.
  SealedDoor members(alice, {11});
  CHECK(members.refusal_of(*by_token, {14}) == "");
  expect_in(members.refusal_of(*holder(site, "bob", 12), {12}), "has not let it in yet");
  // Another process may have the same certificate, and not the same id.
  const auto second = holder(site, "alice");
  expect_in(at.door.refusal_of(*second, {11}), "belongs to another key");
  CHECK(at.door.refusal_of(*second, {16}) == "");
}

TEST_CASE("a subject without the role of a member is told so") {
  if (secure::lacking()) return;
  const Site site;
  const SecretFile secret;
  Entrance at(secret, site.coordinators());
  expect_in(at.door.refusal_of(*holder(site, "eve"), {11}), "member run7 CN=eve");
  expect_in(at.door.refusal_of(*holder(site, "carol"), {11}), "has the role observer");
  expect_in(at.door.refusal_of(*holder(site, "alice", 11, "run8"), {11}), "another run");
  expect_in(at.door.refusal_of(*holder(site, "bob", 12, kHoldersRun), {11}),
            "no certificate lets into the run");
  CHECK_FALSE(at.gate->entrant({11}).has_value());
}

TEST_CASE("another authority's certificate opens nothing, on either side") {
  if (secure::lacking()) return;
  const Site site;
  const Site other("another");
  const SecretFile secret;
  Entrance at(secret, site.coordinators());
  // The same name does not make it the same.
  const Site twin;
  expect_in(at.door.refusal_of(*holder(twin, "alice"), {11}),
            "no authority in the option tls_ca has signed it");
  expect_in(at.door.refusal_of(*holder(other, "alice"), {11}),
            "no authority in the option tls_ca has signed it");
  // It believes the coordinator, which does not believe it.
  other.issue("alice", Site::wish("alice"));
  Options options = other.options("alice");
  options.tls_ca = site.path("ca.pem");
  const auto call = at.door.call(holder(options).get(), {11});
  at.door.end_of(*call);
  CHECK(call->failure().code() == Code::kAuthFailed);
  expect_in(call->failure().message(), "refused: unknown CA");
  expect_in(call->failure().message(), "of CN=alice (option tls_cert), which holds from");
}

// A process that has a certificate, and answers with it as if it were the coordinator.
class Pretender final : public Sealer {
 public:
  explicit Pretender(const Options& options) : own_(read_own_files(options).value()) {}
  Result<std::unique_ptr<TlsSeal>> call(MemberId) const override {
    return Status{Code::kUnsupported, ""};
  }
  Result<std::unique_ptr<TlsSeal>> answer() const override {
    secure::TlsTerms terms;
    terms.now = unix_now();
    return std::make_unique<TlsSeal>(
        std::move(secure::TlsSession::server(own_.context, std::move(terms))).value());
  }

 private:
  const OwnCertificate own_;
};

TEST_CASE("a member is no coordinator, and a coordinator is one at its own host") {
  if (secure::lacking()) return;
  const Site site;
  const SecretFile secret;
  const auto alice = holder(site, "alice");
  for (const char* usage : {"", "clientAuth", "serverAuth"}) {
    CertificateWish wish = Site::wish("mallory");
    wish.usage = usage;
    wish.hosts =
        std::string(usage) == "serverAuth" ? "DNS:127.0.0.1,DNS:other.example" : "IP:127.0.0.1";
    SealedDoor door(std::make_shared<Pretender>(site.issue("mallory", wish)), kCoordinator);
    const auto call = door.call(alice.get(), {11});
    door.end_of(*call);
    CAPTURE(call->failure().message());
    // Nobody has proven to be the coordinator: another address may have it.
    CHECK(call->failure().code() == Code::kProtocolError);
    CHECK((says(call->failure(), "serverAuth") || says(call->failure(), "is for DNS:127.0.0.1, ")));
  }
  Entrance at(secret, site.coordinators());
  expect_in(at.door.refusal_of(*holder(site.options("alice"), "run7", "elsewhere.example"), {11}),
            "is for IP Address:127.0.0.1; accepted");
  // One that takes no certificates.
  SealedDoor plain(Gatekeeper::open(secret.path()).value(), kCoordinator);
  expect_in(plain.refusal_of(*alice, {11}), "no session by certificates (option tls_cert)");
}

TEST_CASE("who is revoked, or loses its role, is unwelcome, and is not let in again") {
  if (secure::lacking()) return;
  Site site;
  const SecretFile secret;
  site.revoke({99});
  Options options = site.coordinators();
  options.tls_crl = site.path("crl");
  Entrance at(secret, options);
  const auto alice = holder(site, "alice", 11);
  const auto bob = holder(site, "bob", 12);
  REQUIRE(at.door.refusal_of(*alice, {11}) == "");
  REQUIRE(at.door.refusal_of(*bob, {12}) == "");
  CHECK(at.gate->look_at_certificates().empty());
  site.revoke({11});
  CHECK(at.gate->look_at_certificates().empty());
  CHECK(at.gate->entrant({11})->unwelcome == "the certificate 0B of CN=alice was revoked");
  CHECK(at.gate->entrant({12})->unwelcome == "");
  const auto call = at.door.call(alice.get(), {11});
  at.door.end_of(*call);
  CHECK(call->failure().code() == Code::kAuthFailed);
  expect_in(call->failure().message(), "refused: certificate revoked");
  site.write("roles", "member run7 CN=alice\nmember run8 CN=bob\n");
  CHECK(at.gate->look_at_certificates().empty());
  expect_in(at.gate->entrant({12})->unwelcome, "CN=bob, has no role in the run \"run7\"");
  expect_in(at.door.refusal_of(*bob, {12}), "another run");
  // What was taken away may be given again.
  site.write("roles", "member * CN=*\n");
  site.revoke({});
  at.gate->look_at_certificates();
  CHECK(at.door.refusal_of(*alice, {11}) == "");
  CHECK(at.gate->entrant({11})->unwelcome == "");
}

TEST_CASE("while a file cannot be used who is in stays, and nobody else is let in") {
  if (secure::lacking()) return;
  Site site;
  const SecretFile secret;
  site.revoke({99});
  Options options = site.coordinators();
  options.tls_crl = site.path("crl");
  Entrance at(secret, options);
  const auto alice = holder(site, "alice", 11);
  REQUIRE(at.door.refusal_of(*alice, {11}) == "");
  const auto by_token = token_holder(secret);
  const auto news = [&] {
    const auto all = at.gate->look_at_certificates();
    // Each once.
    CHECK(at.gate->look_at_certificates().empty());
    return all.size() == 1 ? all[0] : "(" + std::to_string(all.size()) + ")";
  };
  const auto spoil = [&](const std::string& file, const std::string& text, const std::string& why) {
    site.write(file, text);
    const std::string told = news();
    expect_in(told, why);
    expect_in(told, "who is in stays");
    CHECK(at.gate->entrant({11})->unwelcome == "");
    expect_in(at.door.refusal_of(*alice, {11}), "lets nobody in by a certificate until");
    // Tokens do not depend on it.
    CHECK(at.door.refusal_of(*by_token, {20}) == "");
  };
  spoil("crl", "damaged", "no PEM text of lists");
  spoil("crl", "", "the file is empty");
  site.revoke({99});
  CHECK(news() == "the files of certificates can be used again");
  spoil("roles", "member run7\n", "line 1: there is no subject");
  site.write("roles", "member run7 CN=alice\n");
  CHECK(news() == "the files of certificates can be used again");
  std::filesystem::remove(site.path("crl"));
  expect_in(news(), "tls_crl " + site.path("crl") + ": No such file");
  site.revoke({99});
  CHECK(news() == "the files of certificates can be used again");
  CHECK(at.door.refusal_of(*alice, {11}) == "");
  // A list that has ended says nothing of who is in, though it has them.
  site.revoke({11}, -7200, -3600);
  expect_in(news(), "the lists hold from");
  CHECK(at.gate->entrant({11})->unwelcome == "");
  CHECK(at.door.refusal_of(*alice, {11}) != "");
  const Site other;
  site.write("crl", secure::revocations_of(other.authority, {11}, unix_now().value - 60,
                                           unix_now().value + 60));
  expect_in(news(), "is not signed by the authority that it names");
  site.revoke({});
  CHECK(news() == "the files of certificates can be used again");
  CHECK(at.door.refusal_of(*alice, {11}) == "");
}

TEST_CASE("a member that has renewed its certificate shows the new one at its next call") {
  if (secure::lacking()) return;
  Site site;
  const SecretFile secret;
  site.revoke({});
  Options options = site.coordinators();
  options.tls_crl = site.path("crl");
  Entrance at(secret, options);
  const auto alice = holder(site, "alice", 11);
  REQUIRE(at.door.refusal_of(*alice, {11}) == "");
  // Half of a pair is no reason to forget the old one.
  site.write("alice.key", "half");
  CHECK(at.door.refusal_of(*alice, {11}) == "");
  CertificateWish wish = Site::wish("alice");
  wish.serial = 21;
  site.issue("alice", wish);
  site.revoke({11});
  at.gate->look_at_certificates();
  CHECK(at.door.refusal_of(*alice, {11}) == "");
  CHECK(at.gate->entrant({11})->facts().certificate == "15");
  CHECK(at.gate->entrant({11})->unwelcome == "");
}

TEST_CASE("a list that ends while nothing else happens keeps newcomers out from then on") {
  if (secure::lacking()) return;
  Site site;
  site.revoke({99}, -60, 60);
  Options options = site.coordinators();
  options.tls_crl = site.path("crl");
  const auto gate = CertificateGate::open(options).value();
  const secure::UnixTime now = unix_now();
  const secure::UnixTime late{now.value + 3600};
  CHECK(gate->look(now).news.empty());
  CHECK(gate->check_usable(now).is_ok());
  CHECK(gate->check_usable(late).code() == Code::kAuthFailed);
  const auto first = gate->look(late);
  REQUIRE(first.news.size() == 1);
  expect_in(first.news[0], "tls_crl " + site.path("crl") + ": the lists hold from");
  CHECK_FALSE(first.has_new_rules);
  CHECK(gate->look({late.value + 1}).news.empty());
  // One that has not begun is no better.
  CHECK_FALSE(gate->check_usable({now.value - 3600}).is_ok());
  site.revoke({99}, -60, 7200);
  const auto mended = gate->look(late);
  CHECK(mended.has_new_rules);
  CHECK(mended.news == std::vector<std::string>{"the files of certificates can be used again"});
}

TEST_CASE("files that cannot work are told before anybody is called") {
  if (secure::lacking()) return;
  const Site site;
  const Options sound = site.issue("alice", Site::wish("alice"));
  const auto refused = [&](const Options& options, const std::string& part) {
    const auto made = enter_by_certificate(options, {"run7", {"127.0.0.1"}});
    REQUIRE_FALSE(made.is_ok());
    CHECK(made.status().code() == Code::kConfigError);
    expect_in(made.status().message(), part);
  };
  REQUIRE(enter_by_certificate(sound, {"run7", {"127.0.0.1"}}).is_ok());
  Options options = sound;
  options.tls_key.clear();
  refused(options, "option tls_cert, tls_ca is set without tls_key; accepted: ");
  options = sound;
  options.tls_ca.clear();
  refused(options, "option tls_cert, tls_key is set without tls_ca");
  options = sound;
  options.tls_key = site.path("coordinator.key");
  refused(options, "the key is not the certificate's");
  options = sound;
  options.tls_ca = site.path("roles");
  refused(options, "the authorities are no PEM text");
  options.tls_ca = site.path("none");
  refused(options, "tls_ca " + site.path("none") + ": No such file");
  CertificateWish late = Site::wish("alice");
  late.not_after = unix_now().value - 10;
  refused(site.issue("late", late), "and this host's clock says 20");
  CertificateWish early = Site::wish("alice");
  early.not_before = unix_now().value + 86400;
  early.not_after = early.not_before + 10;
  refused(site.issue("early", early), "renew it, or set the clock");
  REQUIRE(::chmod(sound.tls_key.c_str(), 0644) == 0);
  refused(sound, "others may use it (mode 0644); accepted: 0600");
  REQUIRE(::chmod(sound.tls_key.c_str(), 0600) == 0);
  expect_in(enter_by_certificate(sound, {"", {}}).status().message(),
            "names none either; accepted: host:port/RUN");

  const auto gate = [](const Options& of) { return CertificateGate::open(of).status().message(); };
  options = site.coordinators();
  options.tls_roles.clear();
  expect_in(gate(options), "option tls_cert is set without tls_roles");
  options = site.options("alice");
  options.tls_roles = site.path("roles");
  expect_in(gate(options), "the certificate 01 of CN=alice is not made for servers; accepted: ");
  site.write("roles", "# nothing\nmember run7 alice\n");
  expect_in(gate(site.coordinators()), "tls_roles " + site.path("roles") + ", line 2: ");
}

}  // namespace
}  // namespace holdfast::runtime
#else
TEST_CASE("certificates open a door in a build that has OpenSSL") {
  CHECK(holdfast::secure::lacking());
}
#endif
