// Device data: a program's elements in memory of a CUDA device: as the mailbox reads and writes
// them, and packed at once. The program sees to it that what it sends is there, and that what it
// receives into is not in use, before it calls (MPI knows no streams).
// Why: docs/decisions/0140-messages-of-device-memory.md
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/message/mail_request.h"
#include "device_comm/piecewise.h"
#include "mpi/core/failure.h"

namespace holdfast::mpi {

struct Datatype;

// The device that owns `count` elements at `at`; nothing: they are the host's, or none. Any thread.
std::optional<int> device_of(const Datatype& type, std::int64_t count, const void* at);

class DeviceSource final : public comm::MailSource {
 public:
  explicit DeviceSource(std::unique_ptr<device_comm::DeviceReader> reader)
      : reader_(std::move(reader)) {}
  std::uint64_t size() const override { return reader_->bytes(); }
  // An error is told by status().
  void read(std::uint64_t offset, std::span<std::byte> to) override {
    static_cast<void>(reader_->read(offset, to));
  }
  // Once the message is done.
  const holdfast::Status& status() const { return reader_->status(); }

 private:
  const std::unique_ptr<device_comm::DeviceReader> reader_;
};

class DeviceSink final : public comm::MailSink {
 public:
  explicit DeviceSink(std::unique_ptr<device_comm::DeviceWriter> writer)
      : writer_(std::move(writer)) {}
  std::uint64_t capacity() const override { return writer_->bytes(); }
  // An error is told by finish().
  void write(std::uint64_t offset, std::span<const std::byte> from) override {
    static_cast<void>(writer_->write(offset, from));
  }
  // Once the message is done: waits until it is in the program's memory.
  holdfast::Status finish() { return writer_->finish(); }

 private:
  const std::unique_ptr<device_comm::DeviceWriter> writer_;
};

// What a device reads (writes) for a message, of elements that it owns.
Result<std::unique_ptr<device_comm::DeviceReader>> reader_of(int device, const Datatype& type,
                                                             std::int64_t count, const void* at);
Result<std::unique_ptr<device_comm::DeviceWriter>> writer_of(int device, const Datatype& type,
                                                             std::int64_t count, void* at);

// Packs `count` elements at `at` into `to`, or unpacks them; either memory may be a device's. Waits
// for the device.
Failure pack_elements(const Datatype& type, std::int64_t count, const void* at, std::byte* to);
Failure unpack_elements(const Datatype& type, std::int64_t count, const std::byte* from, void* at);
// As these, of a run of bytes and memory of our own.
Failure copy_from(const std::byte* at, std::span<std::byte> to);
Failure copy_to(std::byte* at, std::span<const std::byte> from);

}  // namespace holdfast::mpi
