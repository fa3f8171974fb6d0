// Rows of the option table: what data travels as, and what becomes of it on devices.
#include "compress/codec.h"
#include "device_comm/devices.h"
#include "runtime/option_rows/rows.h"

namespace holdfast::runtime {
namespace {

constexpr std::uint64_t kSmallestSlice = 4096;
constexpr std::uint64_t kLargestSlice = 1ULL << 30;

constexpr std::string_view kPaths = "\"auto\" or \"off\"";

Status check_codec(const OptionRow&, const Options& options) {
  if (options.codec.empty()) return Status::ok();
  return compress::Codec::parse(options.codec).status();
}

// Includes codec_min_bytes, which means nothing alone.
std::string agreed_codec(const Options& options, const comm::PlanTable&) {
  const auto codec = compress::Codec::parse(options.codec);
  if (options.codec.empty() || !codec.is_ok()) return "none";
  return codec.value().text() + " from " + std::to_string(options.codec_min_bytes) + " bytes";
}

std::string agreed_with_codec(const Options&, const comm::PlanTable&) { return ""; }

constexpr OptionRow kDataRows[] = {
    {.name = "codec",
     .field = &Options::codec,
     .accepted = "a codec's name, with its options in brackets",
     .doc = "What sums and averages of floating elements travel as, for example "
            "int8(block=64,stochastic); a lossless one also carries what is moved; empty: as "
            "they are.",
     .agreement = Agreement::kAlways,
     .check = check_codec,
     .agreed = agreed_codec},
    {.name = "codec_min_bytes",
     .field = &Options::codec_min_bytes,
     .accepted = "a whole number of bytes, at least 0",
     .doc = "From how many bytes on the option codec holds.",
     .agreement = Agreement::kIfSet,
     .agreed = agreed_with_codec},
    {.name = "cuda_driver",
     .field = &Options::cuda_driver,
     .accepted = "empty (the system's), \"emulated\" or \"none\"",
     .doc = "Whose CUDA devices device memory is of: the system's driver, opened when it is "
            "first needed; emulated, a device made of host memory, for tests; none.",
     .choices = device_comm::kCudaDrivers},
    {.name = "cuda_slice_bytes",
     .field = &Options::cuda_slice_bytes,
     .accepted = "4096 to 1073741824 bytes",
     .doc = "Pieces in which large collectives on device memory are copied and exchanged, so "
            "that one is copied while another travels.",
     .agreement = Agreement::kIfSet,
     .least = kSmallestSlice,
     .most = kLargestSlice},
    {.name = "cuda_ipc",
     .field = &Options::cuda_ipc,
     .accepted = kPaths,
     .doc = "Whether ranks of one host read each other's device memory where it lies: auto, "
            "where their devices reach each other.",
     .agreement = Agreement::kIfSet,
     .choices = device_comm::kCudaPaths},
    {.name = "cuda_ipc_min_bytes",
     .field = &Options::cuda_ipc_min_bytes,
     .accepted = "1 byte or more",
     .doc = "From how many bytes on the option cuda_ipc holds.",
     .agreement = Agreement::kIfSet,
     .least = 1},
    {.name = "cuda_codec",
     .field = &Options::cuda_codec,
     .accepted = kPaths,
     .doc = "Whether what has a codec is encoded and decoded on the device: auto, where it "
            "can be.",
     .agreement = Agreement::kIfSet,
     .choices = device_comm::kCudaPaths},
    {.name = "cuda_codec_min_bytes",
     .field = &Options::cuda_codec_min_bytes,
     .accepted = "1 byte or more",
     .doc = "From how many bytes on, before they are encoded, the option cuda_codec holds.",
     .agreement = Agreement::kIfSet,
     .least = 1},
};

}  // namespace

std::span<const OptionRow> data_rows() { return kDataRows; }

}  // namespace holdfast::runtime
