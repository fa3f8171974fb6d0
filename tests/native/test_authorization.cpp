// The lock of pages without a socket: base64, the header Authorization, files of credentials, and
// the table of who reads which page.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/base64.h"
#include "health/lock/authorization.h"
#include "health/lock/credentials.h"
#include "health/lock/page_roles.h"

namespace holdfast::health {
namespace {

const std::string kToken = "0123456789abcdef-token";
const std::string kOther = "fedcba9876543210-other";

TEST_CASE("base64 has one spelling for each text, and nothing else is read") {
  // RFC 4648, 10.
  const std::array<std::array<const char*, 2>, 7> known = {{{"", ""},
                                                            {"f", "Zg=="},
                                                            {"fo", "Zm8="},
                                                            {"foo", "Zm9v"},
                                                            {"foob", "Zm9vYg=="},
                                                            {"fooba", "Zm9vYmE="},
                                                            {"foobar", "Zm9vYmFy"}}};
  for (const auto& [text, encoded] : known) {
    CHECK(encode_base64(text) == encoded);
    CHECK(decode_base64(encoded) == text);
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  CHECK(decode_base64(encode_base64(all)) == all);
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Z===", "Zm 9",
                          "Zm9v\n", "Zm-_", "=Zg=", "Zg=a"}) {
    CHECK_MESSAGE(!decode_base64(bad), bad);
  }
}

TEST_CASE("an authorization is a token, or a user and a password, in one form each") {
  const auto bearer = parse_authorization("bEARER   " + kToken + "==");
  REQUIRE(bearer);
  CHECK(bearer->scheme == AuthorizationScheme::kBearer);
  CHECK(bearer->text == kToken + "==");
  const auto basic = parse_authorization("Basic " + encode_base64("ada:a:b c"));
  REQUIRE(basic);
  CHECK(basic->scheme == AuthorizationScheme::kBasic);
  CHECK(basic->text == "ada:a:b c");
  for (const auto& said : {*bearer, *basic}) {
    CHECK(parse_authorization(authorization_value(said))->text == said.text);
  }
  const std::string longest(kMaxCredentialBytes, 'a');
  CHECK(parse_authorization("Bearer " + longest));
  for (const std::string& bad :
       {std::string(), std::string("Bearer"), std::string("Bearer "), "Bearer" + kToken,
        "Digest " + kToken, "Bearer " + kToken + " ", "Bearer " + kToken + ", Basic x",
        "Bearer =" + kToken, std::string("Bearer a=b"), "Bearer " + longest + "a",
        "\tBearer " + kToken, "Basic " + encode_base64("ada"),
        "Basic " + encode_base64(":password"), "Basic " + encode_base64("ada:pass\nword"),
        "Basic " + encode_base64("ada:" + longest),
        "Basic " + encode_base64(std::string("ada:\0b", 6)), std::string("Basic YTpi="),
        "Basic " + std::string(4000, 'A')}) {
    CHECK_MESSAGE(!parse_authorization(bad), bad);
  }
}

TEST_CASE("who has a credential gets its role, and who has another gets none") {
  const auto opened =
      Credentials::parse("# who may read\n\nobserver bearer " + kToken +
                         "\r\n\t admin  basic ada  a-long-password!#\n" +
                         "observer basic bob another-password\nadmin bearer " + kOther);
  REQUIRE_MESSAGE(opened.is_ok(), opened.status().message());
  const Credentials& credentials = opened.value();
  const auto basic = [](const std::string& text) { return "Basic " + encode_base64(text); };
  CHECK(credentials.reader_of("Bearer " + kToken) == PageReader::kObserver);
  CHECK(credentials.reader_of("Bearer " + kOther) == PageReader::kAdmin);
  CHECK(credentials.reader_of(basic("ada:a-long-password!#")) == PageReader::kAdmin);
  CHECK(credentials.reader_of(basic("bob:another-password")) == PageReader::kObserver);
  for (const std::string& other :
       {std::string(), std::string("Bearer"), "Bearer " + kToken.substr(1),
        "Bearer " + kToken + "x", "Basic " + kToken, basic(kToken), basic("ada:another-password"),
        basic("ada:"), basic("Ada:a-long-password!#"), "Bearer 1" + kToken.substr(1)}) {
    CHECK_MESSAGE(credentials.reader_of(other) == PageReader::kAnybody, other);
  }
  // A program that reads pages takes the one that opens most.
  CHECK(credentials.reader_of(credentials.authorization()) == PageReader::kAdmin);
  const auto single = Credentials::parse("observer basic bob another-password");
  CHECK(single.value().authorization() == basic("bob:another-password"));
}

TEST_CASE("a line that is no credential is refused by its number, and never repeated") {
  const std::array<std::array<std::string, 2>, 13> bad = {{
      {"", "no credential in it"},
      {"# only this\n\n", "no credential in it"},
      {"admin", "line 1"},
      {"\nroot bearer " + kToken, "line 2"},
      {"admin bearer", "line 1"},
      {"admin bearer s3cret-short", "16 characters"},
      {"admin bearer s3cret-with-a-colon:in-it", "letters, digits"},
      {"admin bearer " + std::string(kMaxCredentialBytes + 1, 's'), "256"},
      {"admin basic ada s3cret", "password of at least 16"},
      {"admin basic a:da s3cret-and-long-enough", "without a colon"},
      {"admin basic ada s3cret-and-long-enough more", "ROLE bearer TOKEN"},
      {"admin token s3cret-and-long-enough", "ROLE bearer TOKEN"},
      {"admin bearer " + kToken + "\nobserver bearer " + kToken, "line 2: the same"},
  }};
  for (const auto& row : bad) {
    const auto parsed = Credentials::parse(row[0]);
    REQUIRE_MESSAGE(!parsed.is_ok(), row[0]);
    const std::string& said = parsed.status().message();
    CHECK_MESSAGE(said.find(row[1]) != std::string::npos, said);
    CHECK(parsed.status().code() == Code::kConfigError);
    CHECK(said.find("s3cret") == std::string::npos);
    CHECK(said.find(kToken) == std::string::npos);
  }
  std::string many;
  for (std::size_t i = 0; i <= kMaxCredentials; ++i) {
    many += "observer bearer " + kToken + std::to_string(i) + "\n";
  }
  CHECK(Credentials::parse(many).status().message().find("more than 64") != std::string::npos);
}

TEST_CASE("a file of credentials that others may read is refused") {
  std::string path = "/tmp/holdfast-credentials-XXXXXX";
  const int fd = ::mkstemp(path.data());
  REQUIRE(fd >= 0);
  const std::string text = "admin bearer " + kToken + "\n";
  REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  CHECK(Credentials::open(path).is_ok());
  const auto says = [&](const char* what) {
    const auto opened = Credentials::open(path);
    CHECK(opened.status().code() == Code::kConfigError);
    return opened.status().message().find("http_credentials " + path) != std::string::npos &&
           opened.status().message().find(what) != std::string::npos;
  };
  REQUIRE(::fchmod(fd, 0640) == 0);
  CHECK(says("others may use it (mode 0640); accepted: 0600"));
  REQUIRE(::fchmod(fd, 0600) == 0);
  const std::string large(200'000, '#');
  REQUIRE(::write(fd, large.data(), large.size()) == static_cast<ssize_t>(large.size()));
  CHECK(says("more than"));
  ::close(fd);
  ::unlink(path.c_str());
  CHECK(says("mode 0600 with lines ROLE bearer TOKEN"));
}

TEST_CASE("the table of pages, cell by cell") {
  struct Row {
    Page page;
    const char* path;
    const char* readers;  // Anybody, Observers, Admins
    const char* servers;  // Ranks, Coordinators, relays
  };
  constexpr std::array<Row, kPageCount> rows = {{{Page::kStatusPage, "/", " OA", "RC "},
                                                 {Page::kStatus, "/status", " OA", "RC "},
                                                 {Page::kMetrics, "/metrics", " OA", "RCr"},
                                                 {Page::kHealthz, "/healthz", "AOA", "RCr"},
                                                 {Page::kReadyz, "/readyz", "AOA", "RC "},
                                                 {Page::kFlight, "/flight", "  A", "R  "},
                                                 {Page::kStack, "/stack", "  A", "R  "},
                                                 {Page::kTargets, "/targets", " OA", " C "},
                                                 {Page::kJobs, "/admin/jobs", " OA", " C "},
                                                 {Page::kMembers, "/admin/members", " OA", " C "},
                                                 {Page::kKick, "/admin/kick", "  A", " C "},
                                                 {Page::kRevoke, "/admin/revoke", "  A", " C "},
                                                 {Page::kDrain, "/admin/drain", "  A", " C "},
                                                 {Page::kPause, "/admin/pause", "  A", " C "},
                                                 {Page::kResume, "/admin/resume", "  A", " C "},
                                                 {Page::kUnknown, "/none", " OA", "   "}}};
  for (const Row& row : rows) {
    for (int reader = 0; reader < kPageReaderCount; ++reader) {
      CHECK_MESSAGE(
          may_read(static_cast<PageReader>(reader), row.page) == (row.readers[reader] != ' '),
          row.path);
    }
    const auto found = [&](PageServer server) { return page_at(row.path, server); };
    CHECK(found(PageServer::kRank) == (row.servers[0] == 'R' ? row.page : Page::kUnknown));
    CHECK(found(PageServer::kCoordinator) == (row.servers[1] == 'C' ? row.page : Page::kUnknown));
    CHECK(found(PageServer::kRelay) == (row.servers[2] == 'r' ? row.page : Page::kUnknown));
  }
  CHECK(page_at("", PageServer::kRank) == Page::kUnknown);
  CHECK(page_at("/metrics/", PageServer::kRank) == Page::kUnknown);
  CHECK(paths_of(PageServer::kRank) == "/ /status /metrics /healthz /readyz /flight /stack");
  CHECK(paths_of(PageServer::kRelay) == "/metrics /healthz");
  CHECK(paths_of(PageServer::kCoordinator) ==
        "/ /status /metrics /healthz /readyz /targets /admin/jobs /admin/members /admin/kick "
        "/admin/revoke /admin/drain /admin/pause /admin/resume");
  for (int i = 0; i < kPageCount; ++i) {
    const auto page = static_cast<Page>(i);
    // What acts is for admins alone.
    CHECK((!is_action(page) || !may_read(PageReader::kObserver, page)));
    CHECK(is_action(page) == (page >= Page::kKick && page <= Page::kResume));
  }
  CHECK(page_reader("observer") == PageReader::kObserver);
  CHECK(page_reader("admin") == PageReader::kAdmin);
  CHECK_FALSE(page_reader("anybody"));
}

}  // namespace
}  // namespace holdfast::health
