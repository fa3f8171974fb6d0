// Rates of the kernels on the first GPU, as parts of the rate at which the device copies its own
// memory: JSON lines, one to kernel and size.
//
//   cmake -DHOLDFAST_TESTS=ON ... && device_rates [bytes] [emulated]
//
// `bytes` are those of the tensor, 256 MiB unless said otherwise. Rates count bytes read and
// written, each once, by time between two events of the stream; all are medians. `emulated` runs
// it without a GPU, which says nothing about speed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "comm/reduce/device_reduce.h"
#include "compress/device/stages.h"
#include "datatype/strided.h"
#include "device/device_address.h"
#include "device/emulated_driver.h"
#include "device/loaded_kernels.h"
#include "device/state_hash.h"

namespace holdfast::device {
namespace {

constexpr int kTurns = 11;
constexpr int kWarmUp = 3;
constexpr std::uint64_t kHashChunk = std::uint64_t{1} << 20;

void require(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

template <class T>
T value_of(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

class Bench {
 public:
  Bench(DriverTable table, bool emulated) : d_(*table), table_(std::move(table)) {
    DeviceId id = 0;
    CuContext context;
    ok(d_.device_get(&id, 0), "opening a device");
    ok(d_.device_primary_ctx_retain(&context, id), "retaining its context");
    ok(d_.ctx_set_current(context), "making its context current");
    char name[256] = {};
    ok(d_.device_get_name(name, sizeof name, id), "asking its name");
    name_ = name;
    int processors = 0;
    ok(d_.device_get_attribute(&processors, Attribute::kMultiprocessors, id), "counting");
    kernels_ = std::make_unique<LoadedKernels>(table_, static_cast<std::uint32_t>(processors));
    ok(d_.stream_create_with_priority(&stream_, kStreamNonBlocking, 0), "making a stream");
    // The emulator takes its time.
    turns_ = emulated ? 1 : kTurns;
    warm_up_ = emulated ? 0 : kWarmUp;
  }
  ~Bench() {
    free_memory();
    kernels_->unload();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::byte* memory(std::uint64_t bytes) {
    DevicePointer at = 0;
    ok(d_.mem_alloc(&at, std::max<std::uint64_t>(bytes, 1)), "allocating");
    memory_.push_back(at);
    // Small floats, none of them special.
    ok(d_.memset_d8_async(at, 0x3c, bytes, stream_), "setting memory");
    return pointer_to(at);
  }
  // All of it.
  void free_memory() {
    ok(d_.stream_synchronize(stream_), "waiting");
    for (const DevicePointer at : memory_) ok(d_.mem_free(at), "freeing");
    memory_.clear();
  }
  template <class T>
  T* memory_of(const std::vector<T>& values) {
    const std::uint64_t bytes = values.size() * sizeof(T);
    std::byte* at = memory(bytes);
    void* pinned = nullptr;
    ok(d_.mem_host_alloc(&pinned, bytes, 0), "pinning");
    std::memcpy(pinned, values.data(), bytes);
    ok(d_.memcpy_async(number_of(at), number_of(pinned), bytes, stream_), "copying");
    ok(d_.stream_synchronize(stream_), "waiting");
    ok(d_.mem_free_host(pinned), "unpinning");
    return reinterpret_cast<T*>(at);
  }
  void launch(const KernelRow& row, std::uint64_t threads, const void* argument) {
    require(kernels_->launch(row, threads, argument, stream_));
  }
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    ok(d_.memcpy_async(number_of(to), number_of(from), bytes, stream_), "copying");
  }

  // `moved`: bytes that `once` reads and writes.
  void row(const std::string& name, std::uint64_t bytes, std::uint64_t moved,
           const std::function<void()>& once) {
    std::vector<double> seconds;
    for (int turn = -warm_up_; turn < turns_; ++turn) {
      const double one = timed(once);
      if (turn >= 0) seconds.push_back(one);
    }
    std::ranges::sort(seconds);
    const double rate = static_cast<double>(moved) / seconds[seconds.size() / 2];
    if (copy_rate_ == 0) copy_rate_ = rate;
    std::printf(
        "{\"name\": \"%s\", \"device\": \"%s\", \"bytes\": %llu, \"time_us\": %.1f, "
        "\"gb_s\": %.2f, \"of_copy\": %.3f}\n",
        name.c_str(), name_.c_str(), static_cast<unsigned long long>(bytes),
        seconds[seconds.size() / 2] * 1e6, rate / 1e9, rate / copy_rate_);
  }

 private:
  void ok(Cu result, const char* what) const { require(check(d_, result, what)); }

  double timed(const std::function<void()>& once) {
    CuEvent from;
    CuEvent to;
    ok(d_.event_create(&from, 0), "making an event");
    ok(d_.event_create(&to, 0), "making an event");
    ok(d_.event_record(from, stream_), "recording");
    once();
    ok(d_.event_record(to, stream_), "recording");
    ok(d_.event_synchronize(to), "waiting");
    float ms = 0;
    ok(d_.event_elapsed_time(&ms, from, to), "asking the time");
    ok(d_.event_destroy(from), "ending an event");
    ok(d_.event_destroy(to), "ending an event");
    return std::max(static_cast<double>(ms), 1e-6) * 1e-3;
  }

  const CudaDriver& d_;
  const DriverTable table_;
  std::string name_;
  std::unique_ptr<LoadedKernels> kernels_;
  CuStream stream_;
  std::vector<DevicePointer> memory_;
  int turns_ = 0;
  int warm_up_ = 0;
  double copy_rate_ = 0;
};

void reductions(Bench& bench, std::uint64_t bytes) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI64}) {
    for (const std::uint32_t inputs : {2U, 4U, 8U}) {
      const comm::DeviceReduce reduce = comm::device_reduce(dtype, ReduceOp::kSum);
      comm::ReduceArgument argument{};
      argument.out = bench.memory(bytes / inputs);
      for (std::uint32_t i = 0; i < inputs; ++i) argument.in[i] = bench.memory(bytes / inputs);
      argument.count = bytes / inputs / dtype_bytes(dtype) * reduce.elements;
      argument.inputs = inputs;
      argument.divisor = 1;
      const std::uint64_t threads = (argument.count + reduce.per_thread - 1) / reduce.per_thread;
      const std::string name =
          "sum of " + std::to_string(inputs) + " " + std::string(dtype_name(dtype));
      bench.row(name, bytes, bytes / inputs * (inputs + 1),
                [&] { bench.launch(*reduce.kernel, threads, &argument); });
      bench.free_memory();
    }
  }
}

void run_stages(Bench& bench, const std::vector<compress::Stage>& stages) {
  for (const compress::Stage& stage : stages) {
    bench.launch(*stage.row, stage.threads, stage.argument.data());
  }
}

// Moved bytes are those of the tensor and of the largest frame.
void codecs(Bench& bench, std::uint64_t bytes) {
  const std::uint64_t count = bytes / sizeof(float);
  for (const char* text :
       {"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "onebit", "topk", "bfloat"}) {
    bench.free_memory();
    const compress::Codec codec = value_of(compress::Codec::parse(text));
    require(compress::has_stages(codec));
    const DType dtype = codec.takes(DType::kF32) ? DType::kF32 : DType::kBF16;
    const std::uint64_t elements = bytes / dtype_bytes(dtype);
    const std::uint64_t frame_bytes = codec.encoded_bound(dtype, elements);
    const compress::StageMemory memory{
        bench.memory(compress::stage_bytes(codec, elements)),
        reinterpret_cast<compress::StageReport*>(bench.memory(sizeof(compress::StageReport)))};
    compress::StagedEncode encode;
    encode.input = bench.memory(bytes);
    encode.dtype = dtype;
    encode.count = elements;
    encode.frame = bench.memory(frame_bytes);
    const auto stages = compress::encode_stages(codec, encode, memory);
    bench.row(std::string("encode ") + text, bytes, bytes + frame_bytes,
              [&] { run_stages(bench, stages); });
    if (std::string(text) == "bfloat") continue;  // a frame's size is known to the device alone
    compress::StagedDecode decode;
    decode.frame = encode.frame;
    decode.frame_bytes = frame_bytes;
    decode.dtype = dtype;
    decode.count = elements;
    decode.out = bench.memory(count * sizeof(float));
    const auto back = value_of(compress::decode_stages(codec, decode, memory));
    bench.row(std::string("decode ") + text, bytes, bytes + frame_bytes,
              [&] { run_stages(bench, back); });
  }
}

// Rows of a matrix, of which every second block is wanted.
void packing(Bench& bench, std::uint64_t bytes) {
  for (const std::uint64_t block : {4U, 64U, 4096U}) {
    bench.free_memory();
    const datatype::Strided shape{block, {bytes / block, 1, 1, 1}, {std::int64_t(2 * block)}};
    const auto argument =
        value_of(datatype::strided_argument(shape, bench.memory(2 * bytes), bench.memory(bytes)));
    const std::string of = "blocks of " + std::to_string(block);
    for (const KernelRow* row : {&datatype::pack_kernel(), &datatype::unpack_kernel()}) {
      const bool packs = row == &datatype::pack_kernel();
      bench.row((packs ? "pack " : "unpack ") + of, bytes, 2 * bytes,
                [&] { bench.launch(*row, argument.units, &argument); });
    }
  }
  bench.free_memory();
}

// Chunks as a sync has them; read alone.
void state_hash(Bench& bench, std::uint64_t bytes) {
  const std::byte* data = bench.memory(bytes);
  std::vector<HashChunk> chunks;
  for (std::uint64_t at = 0; at < bytes; at += kHashChunk) {
    chunks.push_back({data + at, std::min(kHashChunk, bytes - at)});
  }
  const std::uint64_t blocks = most_hash_blocks(std::min(kHashChunk, bytes));
  const HashArgument argument{.chunks = bench.memory_of(chunks),
                              .count = chunks.size(),
                              .blocks = blocks,
                              .sums = reinterpret_cast<std::uint64_t*>(
                                  bench.memory(hash_workspace_bytes(chunks.size(), blocks))),
                              .digests = bench.memory(chunks.size() * kDigestBytes)};
  bench.row("state hash", bytes, bytes, [&] {
    if (blocks > 0) {
      bench.launch(hash_blocks_kernel(), 32 * argument.count * blocks, &argument);
    }
    bench.launch(hash_chunks_kernel(), 32 * argument.count, &argument);
  });
  bench.free_memory();
}

void measure(std::uint64_t bytes, bool emulated) {
  DriverTable table;
  if (emulated) {
    EmulatedSettings settings;
    settings.kernels = kernels();
    table = make_emulated_driver(settings).table;
  } else {
    table = value_of(open_driver());
  }
  Bench bench(std::move(table), emulated);
  std::byte* to = bench.memory(bytes);
  const std::byte* from = bench.memory(bytes);
  // The yardstick comes first.
  bench.row("copy", bytes, 2 * bytes, [&] { bench.copy(to, from, bytes); });
  bench.free_memory();
  reductions(bench, bytes);
  packing(bench, bytes);
  state_hash(bench, bytes);
  codecs(bench, bytes);
}

}  // namespace
}  // namespace holdfast::device

int main(int argc, char** argv) {
  constexpr std::uint64_t kUsual = 256U << 20;
  // Every dtype and number of inputs divides it.
  constexpr std::uint64_t kLeast = 4096;
  const std::uint64_t asked = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kUsual;
  const bool emulated = argc > 2 && std::strcmp(argv[2], "emulated") == 0;
  if (asked < kLeast || (argc > 2 && !emulated) || argc > 3) {
    std::fprintf(stderr, "usage: device_rates [bytes, at least 4096] [emulated]\n");
    return 2;
  }
  holdfast::device::measure(asked / kLeast * kLeast, emulated);
  return 0;
}
