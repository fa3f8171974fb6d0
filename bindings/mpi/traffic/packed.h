// Packed messages: memory of a derived type as the mailbox reads and writes it, by ranges of the
// packed form, without a copy of the whole.
#pragma once

#include <memory>
#include <utility>

#include "comm/message/mail_request.h"
#include "datatype/packer.h"

namespace holdfast::mpi {

class PackedSource final : public comm::MailSource {
 public:
  PackedSource(datatype::Packer packer, const std::byte* base)
      : packer_(std::move(packer)), base_(base) {}
  std::uint64_t size() const override { return packer_.bytes(); }
  void read(std::uint64_t offset, std::span<std::byte> to) override {
    packer_.pack(base_, offset, to);
  }

 private:
  datatype::Packer packer_;
  const std::byte* base_;
};

class PackedSink final : public comm::MailSink {
 public:
  PackedSink(datatype::Packer packer, std::byte* base) : packer_(std::move(packer)), base_(base) {}
  std::uint64_t capacity() const override { return packer_.bytes(); }
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    packer_.unpack(from, offset, base_);
  }

 private:
  datatype::Packer packer_;
  std::byte* base_;
};

}  // namespace holdfast::mpi
