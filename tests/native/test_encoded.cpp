// Collectives with a codec whose frames are made and read on emulated devices: the bits of the
// host's, and a bus that carries frames only.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <latch>
#include <limits>
#include <numeric>

#include "codec_data.h"
#include "comm/plan/path_agreement.h"
#include "compress/device/stages.h"
#include "device/kernel.h"
#include "device_comm/encoded/plan.h"
#include "rigs.h"
#include "sanitized.h"

namespace holdfast::testing {
namespace {

using compress::Codec;
using device_comm::EncodedFrame;
using device_comm::EncodedPlan;

Setup encoded_setup(std::function<void(int, Options&, device::EmulatedSettings&)> more = {}) {
  Setup setup;
  setup.adjust = [more](int r, Options& options, device::EmulatedSettings& settings) {
    options.cuda_codec_min_bytes = 1;
    settings.kernels = device::kernels();
    if (more) more(r, options, settings);
  };
  return setup;
}

std::shared_ptr<const Codec> codec_of(const std::string& text) {
  return std::make_shared<const Codec>(Codec::parse(text).value());
}

// How many ops of this node were encoded on the device.
int encoded_ops(const Member& member) {
  const std::string text = member.node->metrics_text(false);
  int count = 0;
  for (std::size_t at = 0; (at = text.find("path=\"coded\"} ", at)) != std::string::npos;) {
    at += std::strlen("path=\"coded\"} ");
    const std::size_t line = text.rfind('\n', at) + 1;
    if (text.compare(line, 19, "holdfast_ops_total{") == 0) count += std::stoi(text.substr(at));
  }
  return count;
}

std::vector<float> gradients(std::size_t count, int r) {
  return compress::normals(count, static_cast<std::uint64_t>(r) + 1);
}

// One call, on the host and on the device; `blocks`: of the input and of the output.
struct Shape {
  Collective collective;
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
};

std::vector<Shape> shapes() {
  return {{Collective::kAllReduce, ReduceOp::kSum, true},
          {Collective::kAllReduce, ReduceOp::kAvg},
          {Collective::kReduceScatter},
          {Collective::kReduceScatter, ReduceOp::kAvg},
          {Collective::kAllGather},
          {Collective::kAllToAll},
          {Collective::kBroadcast, ReduceOp::kSum, true}};
}

comm::BlockList cut(std::byte* data, std::size_t blocks, std::size_t count) {
  comm::BlockList all;
  for (std::size_t b = 0; b < blocks; ++b) {
    all.push_back({data + b * count * sizeof(float), count});
  }
  return all;
}

struct Sizes {
  std::size_t inputs;
  std::size_t outputs;
};

Sizes sizes_of(Collective c, std::size_t ranks) {
  switch (c) {
    case Collective::kReduceScatter: return {ranks, 1};
    case Collective::kAllGather: return {1, ranks};
    case Collective::kAllToAll: return {ranks, ranks};
    default: return {1, 1};
  }
}

OpRequest request_for(const Shape& shape, const std::string& codec, std::size_t ranks,
                      std::size_t count, std::byte* in, std::byte* out, float* residual) {
  const Sizes sizes = sizes_of(shape.collective, ranks);
  OpRequest request =
      request_of(shape.collective, cut(in, sizes.inputs, count), cut(out, sizes.outputs, count));
  request.op = shape.op;
  request.codec = codec_of(codec);
  request.equal_blocks = shape.collective == Collective::kAllToAll;
  request.root = {static_cast<int>(ranks) - 1};
  for (std::size_t b = 0; residual != nullptr && b < sizes.inputs; ++b) {
    request.residual.push_back(residual + b * count);
  }
  return request;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Both, `steps` times with the same residual.
std::string compare(int r, int ranks, Member& member, Rig& rig, const Shape& shape,
                    const std::string& codec, std::size_t count, bool feeds_back) {
  const auto n = static_cast<std::size_t>(ranks);
  const Sizes sizes = sizes_of(shape.collective, n);
  std::vector<float> owed(sizes.inputs * count, 0);
  const Array device_owed(rig, owed);
  for (int step = 0; step < 2; ++step) {
    std::vector<float> in = gradients(sizes.inputs * count, 10 * step + r);
    const Array device_in(rig, in);
    std::vector<float> out(sizes.outputs * count, -1);
    const Array device_out(rig, out);
    auto* const host_in = reinterpret_cast<std::byte*>(in.data());
    auto* const host_out = shape.in_place ? host_in : reinterpret_cast<std::byte*>(out.data());
    auto work = member.group->start(
        request_for(shape, codec, n, count, host_in, host_out, feeds_back ? owed.data() : nullptr));
    if (!work.is_ok()) return work.status().message();
    if (const Status end = work.value()->wait(seconds(30)); !end.is_ok()) return end.message();
    std::byte* const there = device_in.block().data;
    const OpRequest request =
        request_for(shape, codec, n, count, there, shape.in_place ? there : device_out.block().data,
                    feeds_back ? reinterpret_cast<float*>(device_owed.block().data) : nullptr);
    if (auto e = run(rig, member, request); e != "") return e;
    const std::vector<float>& expected = shape.in_place ? in : out;
    if (!same_bits((shape.in_place ? device_in : device_out).values(), expected)) {
      return "other bits, step " + std::to_string(step);
    }
    if (!shape.in_place && !same_bits(device_in.values(), in)) return "input was written";
    if (!same_bits(device_owed.values(), owed)) return "other residual";
  }
  return "";
}

// Past the calls that do not wait for the trial.
std::string pass_trial(Rig& rig, Member& member, const std::string& codec = "int8") {
  const Array one(rig, {1, 2, 3});
  for (std::uint32_t i = 0; i < comm::kTrialCalls; ++i) {
    OpRequest request = request_of(Collective::kAllReduce, {one.block()}, {one.block()});
    request.codec = codec_of(codec);
    if (auto e = run(rig, member, request); e != "") return e;
  }
  return "";
}

TEST_CASE("every collective has the host's bits, and leaves its residual") {
  for (const int ranks : {2, 3, 5}) {
    if (kSanitized && ranks != 3) continue;
    run_rigs(
        ranks,
        [ranks](int r, Member& member, Rig& rig) -> std::string {
          if (auto e = pass_trial(rig, member); e != "") return "trial " + e;
          int expected = 1;
          for (const char* const codec : {"int8", "onebit", "topk(ratio=0.05)", "bf16"}) {
            if (ranks == 5 && codec != std::string("int8")) continue;
            for (const Shape& shape : shapes()) {
              for (const std::size_t count : {std::size_t{7}, std::size_t{4099}}) {
                const bool feeds_back = count > 7;
                const std::string error =
                    compare(r, ranks, member, rig, shape, codec, count, feeds_back);
                if (error != "") {
                  return std::string(comm::collective_name(shape.collective)) + " " + codec + " " +
                         std::to_string(count) + ": " + error;
                }
                expected += 2;
              }
            }
          }
          const int count = encoded_ops(member);
          return count == expected ? "" : std::to_string(count) + " ops were coded";
        },
        encoded_setup());
  }
}

TEST_CASE("other codecs, and chunks of several pieces, have the host's bits") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return "trial " + e;
        for (const char* const codec :
             {"fp16", "fp8_e4m3", "fp8_e5m2", "int4", "int8(block=64,minmax)", "onebit(l1)"}) {
          if (!Codec::parse(codec).is_ok()) return std::string("no codec ") + codec;
          if (auto e = compare(r, 2, member, rig, {Collective::kAllReduce, ReduceOp::kAvg}, codec,
                               1001, true);
              e != "") {
            return std::string(codec) + ": " + e;
          }
        }
        for (const Shape& shape :
             {Shape{Collective::kAllReduce, ReduceOp::kSum, true}, Shape{Collective::kAllGather}}) {
          if (auto e = compare(r, 2, member, rig, shape, "int8", 700'001, true); e != "") return e;
        }
        return "";
      },
      encoded_setup());
}

// As same_bits(), of which NaN it is nobody says.
bool same_numbers(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
  });
}

TEST_CASE("what is not a number is none on the device, too, and owes nothing") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return "trial " + e;
        for (const char* const codec : {"int8", "fp16", "onebit", "topk(ratio=0.2)"}) {
          std::vector<float> values = gradients(2001, r);
          values[5] = std::numeric_limits<float>::quiet_NaN();
          values[700] = std::numeric_limits<float>::infinity();
          values[1500] = r == 0 ? 3e38F : 3.1e38F;  // their sum is infinite
          values[1900] = -0.0F;
          std::vector<float> owed = gradients(2001, 50 + r);
          const Array device_owed(rig, owed);
          const Array array(rig, values);
          const auto request = [&](std::byte* data, float* residual) {
            return request_for({Collective::kAllReduce, ReduceOp::kAvg}, codec, 2, 2001, data, data,
                               residual);
          };
          auto work = member.group->start(
              request(reinterpret_cast<std::byte*>(values.data()), owed.data()));
          if (const Status end = work.value()->wait(seconds(30)); !end.is_ok()) {
            return end.message();
          }
          if (auto e = run(
                  rig, member,
                  request(array.block().data, reinterpret_cast<float*>(device_owed.block().data)));
              e != "") {
            return e;
          }
          if (!same_numbers(array.values(), values)) return std::string(codec) + ": other numbers";
          if (!same_numbers(device_owed.values(), owed)) return std::string(codec) + ": owes other";
        }
        return "";
      },
      encoded_setup());
}

TEST_CASE("the bus carries frames: a quarter of the bytes with int8") {
  constexpr std::size_t kCount = 400'000;
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return "trial " + e;
        const Array values(rig, gradients(kCount, r));
        OpRequest request = request_of(Collective::kAllReduce, {values.block()}, {values.block()});
        request.codec = codec_of("int8");
        const std::uint64_t before = rig.driver.control->bus_bytes();
        if (auto e = run(rig, member, request); e != "") return e;
        const std::uint64_t bytes = rig.driver.control->bus_bytes() - before;
        // Up: the other's half, and the own sums; down: the own half, and the other's sums.
        const std::uint64_t half = request.codec->encoded_bound(DType::kF32, kCount / 2);
        return bytes >= 4 * half && bytes < 4 * half + 1000 && bytes < 2 * 4 * kCount * 27 / 100
                   ? ""
                   : std::to_string(bytes) + " bytes";
      },
      encoded_setup());
}

TEST_CASE("stochastic rounding is without bias, and differs from op to op") {
  run_rigs(
      2,
      [](int, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return "trial " + e;
        constexpr std::size_t kCount = 4096;
        // The first of a block of 128 says how large a step is: 1/127.
        std::vector<float> values(kCount, 0.3F / 127);
        for (std::size_t i = 0; i < kCount; i += 128) values[i] = 1;
        std::vector<std::vector<float>> results;
        for (int i = 0; i < 2; ++i) {
          const Array array(rig, values);
          OpRequest request = request_of(Collective::kBroadcast, {array.block()}, {array.block()});
          request.codec = codec_of("int8(stochastic)");
          if (auto e = run(rig, member, request); e != "") return e;
          results.push_back(array.values());
        }
        if (results[0] == results[1]) return "the same draws";
        const double sum = std::accumulate(results[0].begin(), results[0].end(), -32.0);
        const double mean = sum / (kCount - 32) * 127;
        return std::abs(mean - 0.3) < 0.05 ? "" : "mean " + std::to_string(mean);
      },
      encoded_setup());
}

// What all ranks get of a sum where some device cannot do it.
std::string stage_all(int r, int ranks, Member& member, Rig& rig, int calls, int encoded) {
  for (int i = 0; i < calls; ++i) {
    if (auto e = compare(r, ranks, member, rig, {Collective::kAllReduce}, "int8", 3000, true);
        e != "") {
      return "call " + std::to_string(i) + ": " + e;
    }
  }
  const int count = encoded_ops(member);
  return count == encoded ? "" : std::to_string(count) + " ops were coded";
}

TEST_CASE("a device without kernels makes all ranks stage, from the same call on") {
  run_rigs(
      3, [](int r, Member& member, Rig& rig) { return stage_all(r, 3, member, rig, 5, 1); },
      encoded_setup([](int r, Options&, device::EmulatedSettings& settings) {
        if (r == 1) settings.kernels = {};
      }));
}

TEST_CASE("without device memory the op is staged on all ranks, and nothing is lost") {
  run_rigs(
      3, [](int r, Member& member, Rig& rig) { return stage_all(r, 3, member, rig, 5, 1); },
      encoded_setup([](int r, Options&, device::EmulatedSettings& settings) {
        // Room for the arrays, and none beside them.
        if (r == 2) settings.memory_bytes = 1ULL << 20;
      }));
}

TEST_CASE("the options turn it off") {
  run_rigs(
      2, [](int r, Member& member, Rig& rig) { return stage_all(r, 2, member, rig, 3, 0); },
      encoded_setup(
          [](int, Options& options, device::EmulatedSettings&) { options.cuda_codec = "off"; }));
  run_rigs(
      2, [](int r, Member& member, Rig& rig) { return stage_all(r, 2, member, rig, 3, 0); },
      encoded_setup([](int, Options& options, device::EmulatedSettings&) {
        options.cuda_codec_min_bytes = 12'001;
      }));
}

TEST_CASE("what the option codec encodes is encoded on the device, too") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        for (int i = 0; i < 6; ++i) {
          const Array values(rig, std::vector<float>(5000, static_cast<float>(r + 1)));
          if (auto e = run(rig, member,
                           request_of(Collective::kAllReduce, {values.block()}, {values.block()}));
              e != "") {
            return e;
          }
          if (std::abs(values.values()[77] - 3) > 0.1F) return "wrong sum";
        }
        return encoded_ops(member) == 3 ? "" : "staged";
      },
      encoded_setup([](int, Options& options, device::EmulatedSettings&) {
        options.codec = "int8";
        options.codec_min_bytes = 1000;
      }));
}

TEST_CASE("memory is used again, and given back") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, gradients(50'000, r));
        const Array owed(rig, std::vector<float>(50'000, 0));
        OpRequest request = request_of(Collective::kAllReduce, {values.block()}, {values.block()});
        request.codec = codec_of("int4");
        request.residual = {reinterpret_cast<float*>(owed.block().data)};
        std::uint64_t device = 0;
        std::uint64_t pinned = 0;
        for (int i = 0; i < 12; ++i) {
          if (auto e = run(rig, member, request); e != "") return e;
          if (i == 2) device = rig.driver.control->device_bytes_used();
          if (i == 2) pinned = rig.driver.control->pinned_bytes();
        }
        return rig.driver.control->device_bytes_used() <= device &&
                       rig.driver.control->pinned_bytes() <= pinned
                   ? ""
                   : "memory grows";
      },
      encoded_setup());
}

TEST_CASE("an op sees what its stream did before it, and the stream what the op did") {
  run_rigs(
      2,
      [](int, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        constexpr std::size_t kCount = 5000;
        const Array values(rig, std::vector<float>(kCount, 0));
        const Array ones(rig, std::vector<float>(kCount, 1));
        const Array copy(rig, std::vector<float>(kCount, 0));
        const auto enqueue = [&](const Array& to, const Array& from) {
          return rig.d().memcpy_async(to.at(), from.at(), kCount * sizeof(float), rig.stream);
        };
        const auto sum = [&](const Array& array) {
          OpRequest request = request_of(Collective::kAllReduce, {array.block()}, {array.block()});
          request.codec = codec_of("fp16");
          return begin(rig, member, request);
        };
        rig.driver.control->pause();
        if (enqueue(values, ones) != Cu::kSuccess) return "copy before";
        const auto first = sum(values);
        if (const Status waits = first->wait_on(rig.stream); !waits.is_ok()) return waits.message();
        if (enqueue(copy, values) != Cu::kSuccess) return "copy after";
        const auto second = sum(copy);
        if (const Status waits = second->wait_on(rig.stream); !waits.is_ok()) {
          return waits.message();
        }
        if (first->done() || second->done()) return "done too early";
        rig.driver.control->resume();
        if (rig.d().stream_synchronize(rig.stream) != Cu::kSuccess) return "stream";
        if (values.values() != std::vector<float>(kCount, 2)) return "wrong sum";
        if (copy.values() != std::vector<float>(kCount, 4)) return "wrong sum of sums";
        if (!second->wait(seconds(5)).is_ok()) return second->status().message();
        return encoded_ops(member) == 3 ? "" : "staged";
      },
      encoded_setup());
}

TEST_CASE("calls that differ are told apart") {
  run_rigs(
      2,
      [](int r, Member& member, Rig& rig) -> std::string {
        if (auto e = pass_trial(rig, member); e != "") return e;
        const Array values(rig, std::vector<float>(1000, 1));
        OpRequest request = request_of(Collective::kAllReduce, {values.block()}, {values.block()});
        request.codec = codec_of(r == 0 ? "int8" : "int8(block=64)");
        const Status end = begin(rig, member, request)->wait(seconds(30));
        const bool told = end.message().find("codec int8(block=64)") != std::string::npos;
        return end.code() == Code::kProtocolError && told ? "" : end.message();
      },
      encoded_setup());
}

TEST_CASE("a device that is lost in the middle ends the op on all ranks, and hangs none") {
  // A loss also ends an earlier op where a rank has not got to its end yet.
  std::latch passed(2);
  run_rigs(
      2,
      [&passed](int r, Member& member, Rig& rig) -> std::string {
        const std::string trial = pass_trial(rig, member);
        passed.arrive_and_wait();
        if (trial != "") return trial;
        DevicePointer at = 0;
        if (rig.d().mem_alloc(&at, 4000) != Cu::kSuccess) return "memory";
        const comm::Block block{reinterpret_cast<std::byte*>(at), 1000};  // NOLINT
        OpRequest request = request_of(Collective::kAllReduce, {block}, {block});
        request.codec = codec_of("int8");
        if (r == 0) rig.driver.control->pause();
        const auto work = begin(rig, member, request);
        if (r == 0) rig.driver.control->fail(Cu::kLaunchFailed);
        const Status end = work->wait(seconds(30));
        return work->done() && end.code() == Code::kSystem ? "" : "not lost: " + end.message();
      },
      encoded_setup());
}

TEST_CASE("a trial is worth so many calls") {
  using comm::PathAgreement;
  PathAgreement agreement;
  constexpr std::uint32_t kRenew = 10;
  const auto next = [&] { return agreement.choose({1}, seconds(1), kRenew).value(); };
  for (std::uint64_t trial = 1; trial <= 3; ++trial) {
    CHECK(next().trial == trial);
    agreement.conclude(trial, PathAgreement::PathVerdict::kDirect);
    for (std::uint32_t i = 1; i < comm::kTrialCalls; ++i) {
      CHECK(next().path == PathAgreement::Path::kStaged);
    }
    for (std::uint32_t i = comm::kTrialCalls; i < kRenew; ++i) {
      const auto choice = next();
      CHECK(choice.path == PathAgreement::Path::kDirect);
      CHECK(choice.trial == 0);
    }
  }
}

// ---- the plan ----

EncodedPlan plan_for(const Shape& shape, const std::string& codec, int ranks, std::size_t count,
                     int rank) {
  static std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{4096});  // NOLINT
  const OpRequest request =
      request_for(shape, codec, static_cast<std::size_t>(ranks), count, nowhere, nowhere, nullptr);
  return device_comm::encoded_plan(request, {rank}, ranks);
}

void check_part(const EncodedPlan& plan, const std::vector<EncodedFrame>& part,
                std::uint64_t& first, std::uint64_t& at) {
  for (const EncodedFrame& frame : part) {
    CHECK(frame.first == first);
    CHECK(frame.count > 0);
    CHECK(frame.at >= at);
    CHECK(frame.at % device_comm::kEncodedAlignment == 0);
    first += frame.count;
    at = frame.at + frame.bytes;
    CHECK(at <= plan.message_bytes);
  }
}

TEST_CASE("frames cover all elements once, and lie apart in messages that all ranks plan alike") {
  for (const Shape& shape : shapes()) {
    const bool vector =
        shape.collective == Collective::kAllReduce || shape.collective == Collective::kBroadcast;
    const bool one = shape.collective == Collective::kBroadcast;
    for (const std::size_t count : {0U, 1U, 5U, 127U, 4096U, 3'000'001U}) {
      for (const int ranks : {2, 3, 7}) {
        const EncodedPlan plan = plan_for(shape, "int8", ranks, count, 0);
        std::uint64_t first = 0;
        std::uint64_t at = sizeof(device_comm::EncodedHead);
        for (const auto& part : plan.parts) {
          if (!vector) first = 0;
          if (!one) at = sizeof(device_comm::EncodedHead);
          check_part(plan, part, first, at);
          if (!vector) CHECK(first == count);
        }
        CHECK(first == count);
        const EncodedPlan other = plan_for(shape, "int8", ranks, count, ranks - 1);
        CHECK(other.message_bytes == plan.message_bytes);
        CHECK(other.frames() == plan.frames());
      }
    }
  }
}

TEST_CASE("pieces of device memory do not meet") {
  static std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{4096});  // NOLINT
  float residual = 0;
  const OpRequest request = request_for({Collective::kAllReduce}, "topk(ratio=0.1)", 3, 100'000,
                                        nowhere, nowhere, &residual);
  const EncodedPlan plan = device_comm::encoded_plan(request, {1}, 3);
  const device_comm::EncodedRoom room = device_comm::encoded_room(plan, request);
  const std::uint64_t sum = plan.own_elements() * sizeof(float);
  const std::uint64_t stages = compress::stage_bytes(*request.codec, plan.most_elements());
  CHECK(room.in - room.out >= 3 * plan.message_bytes);
  CHECK(room.sum - room.in >= 3 * plan.message_bytes);
  CHECK(room.decoded - room.sum >= sum);
  CHECK(room.residual - room.decoded >= sum);
  CHECK(room.encoding - room.residual >= 400'000);
  CHECK(room.decoding - room.encoding >= stages);
  CHECK(room.bytes - room.decoding >= stages);
}

}  // namespace
}  // namespace holdfast::testing
