#include "compress/device/stages.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "compress/device/bfloat.h"
#include "compress/device/topk.h"

namespace holdfast::compress {
namespace {

template <class Argument>
Stage stage(std::string_view name, std::uint64_t threads, const Argument& argument) {
  const device::KernelRow* row = device::find_kernel(name);
  CHECK(row != nullptr && row->argument_bytes == sizeof argument);
  Stage made{row, threads, std::vector<std::byte>(sizeof argument)};
  std::memcpy(made.argument.data(), static_cast<const void*>(&argument), sizeof argument);
  return made;
}

// ---- topk ----

struct Sections {
  std::uint64_t count;
  std::uint64_t elements;
};

Sections sections_of(std::uint64_t count) {
  const std::uint64_t rows = (count + device::kThreads - 1) / device::kThreads;
  const std::uint64_t each = std::max<std::uint64_t>(1, (rows + kMostSections - 1) / kMostSections);
  return {(rows + each - 1) / each, each * device::kThreads};
}

std::size_t topk_bytes(std::uint64_t count) {
  const Sections sections = sections_of(count);
  return sections.count * (kTopkBins * sizeof(std::uint32_t) + sizeof(TopkTally)) +
         sizeof(TopkState);
}

std::vector<Stage> topk_encode_stages(const Codec& codec, const StagedEncode& what,
                                      std::byte* scratch) {
  const Sections sections = sections_of(what.count);
  auto* const state = reinterpret_cast<TopkState*>(scratch);
  auto* const tallies = reinterpret_cast<TopkTally*>(scratch + sizeof(TopkState));
  TopkEncode a{.codec = device_encode(codec, what.input, what.dtype, what.count, what.key,
                                      what.residual, what.frame),
               .k = codec.encoded_bound(what.dtype, what.count) / 8,
               .sections = sections.count,
               .section = sections.elements,
               .digit = 0,
               .counts = reinterpret_cast<std::uint32_t*>(reinterpret_cast<std::byte*>(tallies) +
                                                          sections.count * sizeof(TopkTally)),
               .tallies = tallies,
               .state = state};
  std::vector<Stage> all;
  if (a.k == 0) return all;
  const std::uint64_t threads = sections.count * device::kThreads;
  for (a.digit = 0; a.digit < kTopkDigits; ++a.digit) {
    all.push_back(stage("holdfast_topk_count", threads, a));
    all.push_back(stage("holdfast_topk_choose", device::kThreads, a));
  }
  all.push_back(stage("holdfast_topk_tally", threads, a));
  all.push_back(stage("holdfast_topk_place", device::kThreads, a));
  all.push_back(stage("holdfast_topk_write", threads, a));
  return all;
}

Result<std::vector<Stage>> topk_decode_stages(const Codec& codec, const StagedDecode& what,
                                              StageReport* report) {
  const std::uint64_t k = codec.encoded_bound(what.dtype, what.count) / 8;
  if (what.frame_bytes != 8 * k) {
    return Status(Code::kProtocolError,
                  "compression: a topk frame of " + std::to_string(what.frame_bytes) + " bytes, " +
                      std::to_string(what.count) + " elements have " + std::to_string(8 * k));
  }
  const TopkDecode a{device_decode(codec, what.frame, what.dtype, what.count, what.out, what.add),
                     k, &report->wrong};
  return std::vector<Stage>{stage("holdfast_topk_clear", what.add ? 1 : what.count, a),
                            stage("holdfast_topk_scatter", k, a)};
}

// ---- bfloat ----

std::uint64_t bfloat_blocks(std::uint64_t count) {
  return (count + kBfloatBlock - 1) / kBfloatBlock;
}

std::vector<Stage> bfloat_encode_stages(const StagedEncode& what, const StageMemory& memory) {
  const BfloatEncode a{static_cast<const std::byte*>(what.input), what.frame, what.count,
                       reinterpret_cast<BfloatPlan*>(memory.scratch), memory.report};
  const std::uint64_t threads = 32 * bfloat_blocks(what.count);
  return {stage("holdfast_bfloat_measure", threads, a),
          stage("holdfast_bfloat_place", device::kThreads, a),
          stage("holdfast_bfloat_write", threads, a)};
}

std::vector<Stage> bfloat_decode_stages(const StagedDecode& what, const StageMemory& memory) {
  const BfloatDecode a{what.frame,         what.frame_bytes,
                       what.out,           what.count,
                       what.add ? 1U : 0U, reinterpret_cast<BfloatPlan*>(memory.scratch),
                       memory.report};
  return {stage("holdfast_bfloat_walk", 1, a),
          stage("holdfast_bfloat_read", 32 * bfloat_blocks(what.count), a)};
}

}  // namespace

Status has_stages(const Codec& codec) {
  const CodecId id = codec.spec().id;
  if (id == CodecId::kTopk) return Status::ok();
  if (id == CodecId::kBfloat && codec.options().tier == Tier::kFast) return Status::ok();
  if (id == CodecId::kBfloat || id == CodecId::kZstd) {
    return {Code::kUnsupported, "compression: no kernels for " + codec.text() +
                                    ": a device has those of bf16, fp16, fp8, int8, int4, onebit, "
                                    "topk and bfloat(tier=fast)"};
  }
  return encode_kernel(codec).status();
}

std::size_t stage_bytes(const Codec& codec, std::uint64_t count) {
  switch (codec.spec().id) {
    case CodecId::kTopk: return topk_bytes(count);
    case CodecId::kBfloat: return bfloat_blocks(count) * sizeof(BfloatPlan);
    default: return 0;
  }
}

std::vector<Stage> encode_stages(const Codec& codec, const StagedEncode& what,
                                 const StageMemory& memory) {
  CHECK(has_stages(codec).is_ok());
  switch (codec.spec().id) {
    case CodecId::kTopk: return topk_encode_stages(codec, what, memory.scratch);
    case CodecId::kBfloat: return bfloat_encode_stages(what, memory);
    default: break;
  }
  if (what.count == 0) return {};
  return {stage(encode_kernel(codec).value()->name, codec_threads(codec, what.count),
                device_encode(codec, what.input, what.dtype, what.count, what.key, what.residual,
                              what.frame))};
}

Result<std::vector<Stage>> decode_stages(const Codec& codec, const StagedDecode& what,
                                         const StageMemory& memory) {
  CHECK(has_stages(codec).is_ok());
  switch (codec.spec().id) {
    case CodecId::kTopk: return topk_decode_stages(codec, what, memory.report);
    case CodecId::kBfloat: return bfloat_decode_stages(what, memory);
    default: break;
  }
  const std::size_t size = codec.encoded_bound(what.dtype, what.count);
  if (what.frame_bytes != size) {
    return Status(Code::kProtocolError, "compression: a frame of " +
                                            std::to_string(what.frame_bytes) + " bytes, " +
                                            codec.text() + " has " + std::to_string(size));
  }
  if (what.count == 0) return std::vector<Stage>{};
  return std::vector<Stage>{
      stage(decode_kernel(codec).value()->name, codec_threads(codec, what.count),
            device_decode(codec, what.frame, what.dtype, what.count, what.out, what.add))};
}

}  // namespace holdfast::compress
