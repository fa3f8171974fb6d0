#include "comm/transport/catalogue.h"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/transport/shm_paths.h"
#include "comm/transport/tcp.h"
#include "comm/transport/trunk/trunk_link.h"
#include "comm/transport/ucx/paths.h"
#include "comm/transport/ucx/ucx.h"

namespace holdfast::comm {
namespace {

// An offer is the names of two segments.
constexpr std::size_t kMaxShmOffer = 512;

std::unique_ptr<StreamLink> make_tcp(Connection connection, const TrunkTerms& terms) {
  if (terms.lanes > 0) return std::make_unique<TrunkLink>(std::move(connection), terms);
  return std::make_unique<TcpLink>(std::move(connection));
}

Result<std::string> look_at_tcp() { return std::string{}; }

// Columns: name, title, reach, whether all ranks must name it, bytes of its offer; then how it
// makes a control channel, how it makes paths beside one, and what of it is available here.
constexpr std::array<TransportRow, kTransportCount> kTransports{{
    {"shm", "shared memory", Reach::kHost, false, kMaxShmOffer, nullptr, open_shm, look_at_shm},
    {"tcp", "TCP", Reach::kAnywhere, false, 0, make_tcp, nullptr, look_at_tcp},
    {"ucx", "UCX", Reach::kAnywhere, true, kMaxUcxCard, nullptr, open_ucx, ucx_version},
}};

}  // namespace

std::span<const TransportRow, kTransportCount> transports() { return kTransports; }

std::optional<std::size_t> transport_index(std::string_view name) {
  const auto at = std::find_if(kTransports.begin(), kTransports.end(),
                               [&](const TransportRow& row) { return row.name == name; });
  if (at == kTransports.end()) return std::nullopt;
  return static_cast<std::size_t>(at - kTransports.begin());
}

}  // namespace holdfast::comm
