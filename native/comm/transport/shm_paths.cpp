#include "comm/transport/shm_paths.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "comm/transport/segment.h"
#include "comm/transport/shm.h"

namespace holdfast::comm {
namespace {

class ShmPath final : public DataPath {
 public:
  ShmPath(Segment bell, Segment link, bool is_caller, StreamLink& control)
      : bell_(std::move(bell)),
        link_(std::move(link), is_caller, words(), [&control] { control.wake_peer(); }) {}

  Link& link() override { return link_; }
  std::optional<Bell> bell() const override { return words(); }

 private:
  Bell words() const { return Bell(reinterpret_cast<BellWords*>(bell_.data())); }

  Segment bell_;
  ShmLink link_;
};

class ShmPaths final : public PathMaker {
 public:
  explicit ShmPaths(std::string bell) : bell_(std::move(bell)) {}

  Result<std::string> offer(MemberId callee) override {
    auto segment = create_shm_link();
    if (!segment.is_ok()) return segment.status();
    Segment& link = offered_[callee] = std::move(segment).value();
    return bell_ + " " + link.name();
  }

  std::string accept(MemberId caller, const std::string& offer) override {
    auto link = Segment::open_growing(offer.substr(offer.find(' ') + 1), kShmLinkBytes);
    if (!link.is_ok()) return {};
    offered_[caller] = std::move(link).value();
    return bell_;
  }

  std::unique_ptr<DataPath> make(MemberId peer, const std::string& said, bool is_caller,
                                 StreamLink& control) override {
    auto offer = offered_.extract(peer);
    if (offer.empty()) return nullptr;
    Segment link = std::move(offer.mapped());
    link.unlink();  // both sides have mapped it: it cannot leak any more
    auto bell = Segment::open(said.substr(0, said.find(' ')), sizeof(BellWords));
    if (!bell.is_ok()) return nullptr;
    return std::make_unique<ShmPath>(std::move(bell).value(), std::move(link), is_caller, control);
  }

  void forget(MemberId peer) override { offered_.erase(peer); }
  void stop() override {
    for (auto& [member, link] : offered_) link.unlink();
  }

 private:
  const std::string bell_;
  // Segments of links whose greetings have not ended, by peer.
  std::map<MemberId, Segment> offered_;
};

}  // namespace

Result<std::unique_ptr<PathMaker>> open_shm(const PathSettings& settings) {
  if (settings.bell.empty()) return std::unique_ptr<PathMaker>();
  return std::unique_ptr<PathMaker>(std::make_unique<ShmPaths>(settings.bell));
}

Result<std::string> look_at_shm() {
  if (::access("/dev/shm", W_OK) == 0) return std::string{};
  return Status{Code::kConfigError,
                "/dev/shm cannot be written; ranks of one host go over sockets"};
}

}  // namespace holdfast::comm
