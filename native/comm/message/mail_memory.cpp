#include "comm/message/mail_memory.h"

#include <utility>

#include "comm/transport/segment.h"

namespace holdfast::comm {
namespace {

class SystemMailSegment final : public MailSegment {
 public:
  explicit SystemMailSegment(Segment segment) : segment_(std::move(segment)) {}

  std::byte* data() const override { return segment_.data(); }
  const std::string& name() const override { return segment_.name(); }
  void unlink() override { segment_.unlink(); }

 private:
  Segment segment_;
};

Result<std::unique_ptr<MailSegment>> own(Result<Segment> segment) {
  if (!segment.is_ok()) return segment.status();
  return std::unique_ptr<MailSegment>(
      std::make_unique<SystemMailSegment>(std::move(segment).value()));
}

}  // namespace

Result<std::unique_ptr<MailSegment>> SystemMailMemory::make(std::size_t bytes) {
  return own(Segment::create("mail", bytes));
}

Result<std::unique_ptr<MailSegment>> SystemMailMemory::open(const std::string& name,
                                                            std::size_t bytes) {
  return own(Segment::open(name, bytes));
}

}  // namespace holdfast::comm
