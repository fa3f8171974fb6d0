#include "datatype/packer.h"

#include "base/check.h"
#include "datatype/pack/step.h"

namespace holdfast::datatype {

Result<Packer> Packer::make(const TypeLayout& layout, std::int64_t count, CpuLevel level) {
  return make(layout, count, pack_kernels(level));
}

Result<Packer> Packer::make(const TypeLayout& layout, std::int64_t count,
                            const PackKernels& kernels) {
  Packer packer;
  packer.plan_ = std::make_shared<const PackPlan>(pack_plan(layout, kernels));
  return packer.times(count);
}

Result<Packer> Packer::times(std::int64_t count) const {
  const TypeLayout& one = plan_->layout;
  if (count < 0) {
    return Status(Code::kConfigError,
                  "packing: the count is " + std::to_string(count) + ", accepted are 0 and more");
  }
  Packer out = *this;
  out.count_ = count;
  TypeBounds bounds;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<std::int64_t>(one.size()), &bytes) ||
      !include_repeated(bounds, one.bounds(), 0, count, one.extent())) {
    return Status(Code::kConfigError, "packing: " + std::to_string(count) + " elements of " +
                                          std::to_string(one.size()) + " bytes, " +
                                          std::to_string(one.extent()) +
                                          " bytes apart, do not fit into 64 bits");
  }
  out.bytes_ = static_cast<std::uint64_t>(bytes);
  return out;
}

const TypeLayout& Packer::layout() const { return plan_->layout; }

void Packer::pack(const std::byte* base, std::uint64_t offset, std::span<std::byte> out) const {
  CHECK(offset <= bytes_ && out.size() <= bytes_ - offset);
  if (out.empty()) return;
  const PackStep& step = count_ == 1 ? *plan_->one : *plan_->many;
  pack_range(step, base + plan_->layout.origin(), offset, offset + out.size(), out.data());
}

void Packer::unpack(std::span<const std::byte> in, std::uint64_t offset, std::byte* base) const {
  CHECK(offset <= bytes_ && in.size() <= bytes_ - offset);
  if (in.empty()) return;
  const PackStep& step = count_ == 1 ? *plan_->one : *plan_->many;
  unpack_range(step, base + plan_->layout.origin(), offset, offset + in.size(), in.data());
}

}  // namespace holdfast::datatype
