#include "runtime/coordinator/etcd/client.h"

#include <utility>

#include "base/json_reader.h"

namespace holdfast::runtime {
namespace {

constexpr int kHttpOk = 200;
constexpr std::size_t kMostShownBody = 80;
// As etcd's gateway says it of a lease that it does not know.
constexpr std::string_view kNoLease = "lease not found";

const EtcdHeader& header_of(const EtcdHeader& header) { return header; }
template <class Answer>
const EtcdHeader& header_of(const Answer& answer) {
  return answer.header;
}

// Of an answer that is not 200.
Status refusal_of(const EtcdUrl& url, const HttpAnswer& answer) {
  const auto said = read_refusal(answer.body);
  if (!said) {
    return {Code::kProtocolError, "what answers at " + to_string(url) +
                                      " is no etcd with a JSON gateway of version 3: status " +
                                      std::to_string(answer.status) + ", \"" +
                                      shown_text(answer.body, kMostShownBody) + "\""};
  }
  const bool ended = said->find(kNoLease) != std::string::npos;
  return {ended ? Code::kNotMember : Code::kSystem, "etcd at " + to_string(url) + ": " + *said};
}

}  // namespace

EtcdClient::EtcdClient(const std::vector<EtcdUrl>& urls,
                       std::shared_ptr<const secure::TlsContext> tls)
    : tls_(std::move(tls)) {
  for (const EtcdUrl& url : urls) servers_.push_back({url, HostLookup(url.host)});
}

Result<HttpAnswer> EtcdClient::ask_one(Server& server, const std::string& path,
                                       const std::string& body, Instant deadline) {
  const std::string name = to_string(server.url);
  auto addresses = server.lookup.find(deadline);
  if (!addresses.is_ok()) return addresses.status();
  Status last;
  std::size_t left = addresses.value().size();
  for (const std::string& address : addresses.value()) {
    const Instant now = clock_.now();
    const Duration share = (deadline - now) / static_cast<int>(left--);
    const std::string host = name.substr(name.find("//") + 2);
    HttpPost post{{address, server.url.port}, host, path, body};
    if (server.url.sealed) {
      post.tls = tls_.get();
      post.certified = server.url.host;
    }
    auto answer = exchange(post, clock_, now + share);
    if (answer.is_ok()) return answer;
    last = answer.status();
  }
  server.lookup.forget();
  return last;
}

Status EtcdClient::look_at(const Server& server, const EtcdHeader& header) {
  if (cluster_ == 0) cluster_ = header.cluster;
  if (cluster_ == header.cluster) return Status::ok();
  return {Code::kProtocolError,
          to_string(server.url) + " is of another etcd cluster (" + std::to_string(header.cluster) +
              ") than the one that answered before (" + std::to_string(cluster_) +
              "); accepted: members of one cluster"};
}

template <class Read>
auto EtcdClient::ask(const std::string& path, const std::string& body, Duration patience, Read read)
    -> decltype(read(body)) {
  const Instant deadline = clock_.now() + patience;
  Code code = Code::kSystem;
  bool refused = false;
  std::string said;
  for (std::size_t left = servers_.size(); left > 0; --left) {
    Server& server = servers_[next_];
    const Instant now = clock_.now();
    auto got = ask_one(server, path, body, now + (deadline - now) / static_cast<int>(left));
    Status status = got.status();
    if (got.is_ok() && got.value().status != kHttpOk) status = refusal_of(server.url, got.value());
    if (status.is_ok()) {
      auto answer = read(got.value().body);
      status = answer.is_ok() ? look_at(server, header_of(answer.value())) : answer.status();
      if (status.is_ok()) return answer;
      if (!answer.is_ok()) {
        status = {status.code(),
                  "what answers at " + to_string(server.url) + " is no etcd: " + status.message()};
      }
    }
    if (status.code() == Code::kNotMember) return status;
    if (status.code() == Code::kProtocolError) code = status.code();
    refused = refused || got.is_ok();
    const bool named = status.message().find(to_string(server.url)) != std::string::npos;
    said +=
        (said.empty() ? "" : "; ") + (named ? "" : to_string(server.url) + ": ") + status.message();
    next_ = (next_ + 1) % servers_.size();
  }
  if (code == Code::kProtocolError) return Status{code, said};
  if (refused) return Status{code, "etcd refuses: " + said};
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return Status{
      code, "etcd does not answer (tried for at most " + std::to_string(waited) + " ms): " + said};
}

Result<EtcdGrant> EtcdClient::grant(std::int64_t ttl_s, Duration patience) {
  return ask("/v3/lease/grant", grant_text(ttl_s), patience, read_grant);
}

Result<EtcdGrant> EtcdClient::keep(std::int64_t lease, Duration patience) {
  auto kept = ask("/v3/lease/keepalive", lease_text(lease), patience, read_kept);
  if (kept.is_ok() && kept.value().ttl_s == 0) {
    return Status{Code::kNotMember, "etcd has ended the lease"};
  }
  return kept;
}

Status EtcdClient::give_back(std::int64_t lease, Duration patience) {
  return ask("/v3/lease/revoke", lease_text(lease), patience, read_given_back).status();
}

Result<EtcdOutcome> EtcdClient::transact(const EtcdTransaction& transaction, Duration patience) {
  return ask("/v3/kv/txn", transaction_text(transaction), patience, read_outcome);
}

}  // namespace holdfast::runtime
