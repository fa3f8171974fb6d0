// What a coordinator says to etcd, and reads of the answers: HTTP, JSON, URLs. The answers are
// those of an etcd 3.4; tests/python/membership/test_standby.py asks a real one.
#include <doctest/doctest.h>

#include <string>

#include "base/base64.h"
#include "runtime/coordinator/etcd/http_answer.h"
#include "runtime/coordinator/etcd/messages.h"
#include "runtime/coordinator/etcd/url.h"

namespace holdfast::runtime {
namespace {

using State = HttpAnswer::AnswerState;

const std::string kGrantBody =
    R"({"header":{"cluster_id":"324952591200643719","member_id":"3319814642761637952",)"
    R"("revision":"1","raft_term":"2"},"ID":"2324035655938689797","TTL":"2"})";
const std::string kCounted =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    "Content-Length: " +
    std::to_string(kGrantBody.size()) + "\r\n\r\n" + kGrantBody;
const std::string kChunked =
    "HTTP/1.1 404 Not Found\r\nTrailer: Grpc-Trailer-Content-Type\r\n"
    "transfer-encoding: chunked\r\n\r\n4\r\n{\"er\r\nA;x=1\r\nror\":\"no\"}\r\n0\r\n"
    "Grpc-Trailer-Content-Type: application/grpc\r\n\r\n";

std::string why_not(std::string_view text) {
  const HttpAnswer answer = parse_answer(text, true);
  CHECK(answer.state == State::kBad);
  return answer.why;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("base64 is what RFC 4648 gives, and is read in this form alone") {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : kVectors) {
    CHECK(encode_base64(bytes) == text);
    CHECK(decode_base64(text) == bytes);
  }
  const std::string all("\x00\xff\x80\x7f\n", 5);
  CHECK(decode_base64(encode_base64(all)) == all);
  for (const char* text : {"Zg", "Zg=", "Zh==", "Z===", "====", "Zg==Zg==", "Zm9*", "Zm 9"}) {
    CHECK_MESSAGE(decode_base64(text) == std::nullopt, text);
  }
}

TEST_CASE("an answer is whole when its body is, however it is cut") {
  for (const std::string& text : {kCounted, kChunked}) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      CHECK(parse_answer(text.substr(0, size), false).state == State::kIncomplete);
      CHECK(parse_answer(text.substr(0, size), true).state == State::kBad);
    }
    CHECK(parse_answer(text, false).state == State::kWhole);
    CHECK(parse_answer(text + "more", false).state == State::kWhole);
  }
  CHECK(parse_answer(kCounted, false).body == kGrantBody);
  const HttpAnswer chunked = parse_answer(kChunked, false);
  CHECK(chunked.status == 404);
  CHECK(read_refusal(chunked.body) == "no");
}

TEST_CASE("a body without a length ends with the connection") {
  const std::string text = "HTTP/1.0 200 OK\r\n\r\nbody";
  CHECK(parse_answer(text, false).state == State::kIncomplete);
  CHECK(parse_answer(text, true).body == "body");
}

TEST_CASE("what is no answer of HTTP's is refused, with what came") {
  CHECK(contains(why_not(""), "without a word"));
  CHECK(contains(why_not("SSH-2.0-OpenSSH"), "SSH-2.0"));
  CHECK(contains(why_not("HTTP/2 200\r\n\r\n"), "HTTP/2"));
  CHECK(contains(why_not("HTTP/1.1 100 Continue\r\n\r\n"), "100"));
  CHECK(contains(why_not("HTTP/1.1 20\r\n\r\n"), "begins with"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\nlength 7\r\n\r\n"), "without a colon"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "accepted: at most"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"), "at most"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n12"),
                 "at most"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), "chunked"));
  const std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(contains(why_not(chunks + "G\r\n"), "a chunk of"));
  CHECK(contains(why_not(chunks + "1\r\nab\r\n"), "without an end"));
  CHECK(contains(why_not(chunks + "FFFFFFFFF\r\n"), "a chunk of"));
  CHECK(contains(why_not("HTTP/1.1 200 OK\r\n" + std::string(9000, 'x')), "of headers"));
  CHECK(contains(why_not(chunks + "0\r\n" + std::string(9000, 'x')), "trailer"));
}

TEST_CASE("an answer may not grow without a limit") {
  const std::string much(kMostAnswerBytes + 1, 'x');
  CHECK(parse_answer("HTTP/1.1 200 OK\r\n\r\n" + much, false).state == State::kBad);
  std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string half(kMostAnswerBytes * 3 / 4, 'x');
  for (int i = 0; i < 2; ++i) chunks += "C0000\r\n" + half + "\r\n";
  CHECK(parse_answer(chunks, false).state == State::kBad);
}

TEST_CASE("leases are read as etcd writes them") {
  const auto grant = read_grant(kGrantBody);
  REQUIRE(grant.is_ok());
  CHECK(grant.value().header.cluster == 324952591200643719u);
  CHECK(grant.value().lease == 2324035655938689797);
  CHECK(grant.value().ttl_s == 2);
  const auto kept = read_kept("{\"result\":" + kGrantBody + "}\n");
  REQUIRE(kept.is_ok());
  CHECK(kept.value().ttl_s == 2);
  const auto ended = read_kept(R"({"result":{"header":{"cluster_id":"3"},"ID":"123"}})");
  REQUIRE(ended.is_ok());
  CHECK(ended.value().ttl_s == 0);
  CHECK_FALSE(read_grant(R"({"header":{"cluster_id":"3"},"ID":"123"})").is_ok());
  CHECK(lease_text(123) == R"({"ID":"123"})");
  CHECK(grant_text(2) == R"({"TTL":"2"})");
}

TEST_CASE("a transaction is one text, and what it found is read by action") {
  using Target = EtcdCondition::EtcdTarget;
  using Verb = EtcdAction::EtcdVerb;
  const EtcdTransaction change{
      .conditions = {{Target::kCreated, "a", 5}, {Target::kValue, "a", 0, "b"}},
      .then = {{Verb::kPut, "a", "b", 7}, {Verb::kDelete, "a"}},
      .otherwise = {{Verb::kRead, "a"}}};
  CHECK(transaction_text(change) ==
        R"({"compare":[{"result":"EQUAL","key":"YQ==","target":"CREATE","create_revision":"5"},)"
        R"({"result":"EQUAL","key":"YQ==","target":"VALUE","value":"Yg=="}],)"
        R"("success":[{"request_put":{"key":"YQ==","value":"Yg==","lease":"7"}},)"
        R"({"request_delete_range":{"key":"YQ=="}}],)"
        R"("failure":[{"request_range":{"key":"YQ=="}}]})");
  const auto outcome = read_outcome(
      R"({"header":{"cluster_id":"3","revision":"9"},"responses":[{"response_range":{"header":)"
      R"({"revision":"2"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"4",)"
      R"("version":"1","value":"Yg=="}],"count":"1"}},{"response_range":{}},)"
      R"({"response_put":{"header":{"revision":"2"}}}]})");
  REQUIRE(outcome.is_ok());
  CHECK_FALSE(outcome.value().held);
  CHECK(outcome.value().header.revision == 9);
  REQUIRE(outcome.value().entries.size() == 3);
  REQUIRE(outcome.value().entries[0].has_value());
  CHECK(outcome.value().entries[0]->value == "b");
  CHECK(outcome.value().entries[0]->create_revision == 2);
  CHECK(outcome.value().entries[0]->mod_revision == 4);
  CHECK_FALSE(outcome.value().entries[1].has_value());
  CHECK_FALSE(outcome.value().entries[2].has_value());
}

TEST_CASE("JSON that is not etcd's is refused, with what came") {
  for (const char* text :
       {"", "[]", "{}", "null", R"({"header":{}})", R"({"header":{"cluster_id":"x"}})",
        R"({"header":{"cluster_id":3}})", R"({"header":{"cluster_id":"-3"}})",
        R"({"header":{"cluster_id":"3"},"succeeded":"yes"})",
        R"({"header":{"cluster_id":"3"},"responses":{}})",
        R"({"header":{"cluster_id":"3"},"responses":[7]})",
        R"({"header":{"cluster_id":"3"},"responses":[{"response_range":{"kvs":[{},{}]}}]})",
        R"({"header":{"cluster_id":"3"},"responses":[{"response_range":{"kvs":[{"value":"*"}]}}]})",
        R"({"header":{"cluster_id":"3"},"responses":[{"response_range":{"kvs":[{}]}}]})"}) {
    const auto outcome = read_outcome(text);
    CHECK_MESSAGE(outcome.status().code() == Code::kProtocolError, text);
  }
  CHECK(contains(read_grant("<html>").status().message(), "<html>"));
  CHECK(read_refusal("404 page not found") == std::nullopt);
  CHECK(read_refusal(R"({"error":"etcdserver: no leader","code":14})") == "etcdserver: no leader");
}

std::string refused(const std::string& text) {
  const auto urls = parse_etcd_urls(text);
  CHECK_MESSAGE(urls.status().code() == Code::kConfigError, text);
  return urls.status().message();
}

TEST_CASE("URLs are of HTTP and have a port") {
  const auto urls =
      parse_etcd_urls("http://a:2379,http://[::1]:1/,http://10.0.0.1:65535,http://a:2379");
  REQUIRE(urls.is_ok());
  REQUIRE(urls.value().size() == 3);
  CHECK(urls.value()[0] == EtcdUrl{"a", 2379});
  CHECK(urls.value()[1] == EtcdUrl{"::1", 1});
  CHECK(to_string(urls.value()[1]) == "http://[::1]:1");
  for (const char* text : {"", "a:2379", "http://a", "http://:1", "http://a:0", "http://a:65536",
                           "http://::1:1", "http://a:1,", "http://a:1/v3", "http://u@a:1",
                           "http://a b:1", "http://a\r\nX:1", "ftp://a:1"}) {
    CHECK(contains(refused(text), "accepted: http://HOST:PORT or https://HOST:PORT"));
  }
  const auto sealed = parse_etcd_urls("https://a:1,http://a:1");
  REQUIRE(sealed.is_ok());
  REQUIRE(sealed.value().size() == 2);
  CHECK(sealed.value()[0].sealed);
  CHECK(to_string(sealed.value()[0]) == "https://a:1");
  std::string many = "http://a:1";
  for (int port = 2; port < 20; ++port) many += ",http://a:" + std::to_string(port);
  CHECK(contains(refused(many), "more than 16"));
}

}  // namespace
}  // namespace holdfast::runtime
