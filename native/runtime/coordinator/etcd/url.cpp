#include "runtime/coordinator/etcd/url.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace holdfast::runtime {
namespace {

constexpr std::string_view kPlainHttp = "http://";
constexpr std::string_view kSealedHttp = "https://";
// A cluster of etcd has three to seven members.
constexpr std::size_t kMostUrls = 16;

Status refuse_url(const std::string& text, const std::string& why) {
  return {Code::kConfigError, "--etcd \"" + text + "\"" + why +
                                  "; accepted: http://HOST:PORT or https://HOST:PORT of each "
                                  "member of one etcd, with commas between them; an address of "
                                  "IPv6 in brackets"};
}

std::optional<EtcdUrl> parse_url(std::string_view text) {
  const bool sealed = text.starts_with(kSealedHttp);
  if (!sealed && !text.starts_with(kPlainHttp)) return std::nullopt;
  text.remove_prefix((sealed ? kSealedHttp : kPlainHttp).size());
  if (text.ends_with('/')) text.remove_suffix(1);
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  EtcdUrl url;
  url.sealed = sealed;
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  url.host = host;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, url.port);
  // What ends up in a header of a request, or names a path, a query or a user.
  const bool strange = std::any_of(host.begin(), host.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' ||
           std::string_view("/?#@[]\x7f").find(c) != std::string_view::npos;
  });
  const bool bare = !brackets && host.find(':') != std::string_view::npos;
  if (error != std::errc{} || at != end || url.port == 0 || host.empty() || strange || bare) {
    return std::nullopt;
  }
  return url;
}

}  // namespace

std::string to_string(const EtcdUrl& url) {
  const bool brackets = url.host.find(':') != std::string::npos;
  return std::string(url.sealed ? kSealedHttp : kPlainHttp) +
         (brackets ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

Result<std::vector<EtcdUrl>> parse_etcd_urls(const std::string& text) {
  std::vector<EtcdUrl> urls;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
    const auto url = parse_url(one);
    if (!url) return refuse_url(text, "");
    if (std::find(urls.begin(), urls.end(), *url) == urls.end()) urls.push_back(*url);
  }
  if (urls.size() > kMostUrls) return refuse_url(text, ": more than " + std::to_string(kMostUrls));
  return urls;
}

}  // namespace holdfast::runtime
