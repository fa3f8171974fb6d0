#include "codec.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compress/codec.h"
#include "gil.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

using compress::Codec;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T> array_of(std::unique_ptr<T[]> memory, std::size_t count) {
  const nb::capsule owner(memory.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return {memory.release(), {count}, owner};
}

// The frame of `values`, or of values + residual; the residual becomes the part that the frame
// loses.
nb::ndarray<nb::numpy, std::uint8_t> encode(const std::string& text, const Floats& values,
                                            const std::optional<Floats>& residual,
                                            std::uint64_t seed) {
  const Codec codec = value_or_raise(Codec::parse(text));
  if (residual && residual->size() != values.size()) {
    throw nb::value_error("a residual has one float32 to an element");
  }
  if (residual && !codec.spec().takes_residual) {
    throw nb::value_error("this codec loses nothing and takes no residual");
  }
  if (!codec.takes(DType::kF32)) throw nb::value_error("this codec does not take float32");
  const std::size_t room = codec.encoded_bound(DType::kF32, values.size());
  auto frame = std::make_unique_for_overwrite<std::uint8_t[]>(room);
  std::size_t bytes = 0;
  {
    const GilReleased released;
    const std::span<float> lost =
        residual ? std::span(residual->data(), residual->size()) : std::span<float>();
    bytes = codec.encode(
        {std::as_bytes(std::span(values.data(), values.size())), DType::kF32, {seed, 0, 0}, lost},
        std::as_writable_bytes(std::span(frame.get(), room)));
  }
  return array_of(std::move(frame), bytes);
}

// Encodes into the memory of `frame`; returns the frame's size in bytes.
std::size_t encode_into(const Bytes& frame, const std::string& text, const Floats& values) {
  const Codec codec = value_or_raise(Codec::parse(text));
  if (!codec.takes(DType::kF32)) throw nb::value_error("this codec does not take float32");
  if (frame.size() < codec.encoded_bound(DType::kF32, values.size())) {
    throw nb::value_error("too little room for a frame");
  }
  const GilReleased released;
  return codec.encode({std::as_bytes(std::span(values.data(), values.size())), DType::kF32, {}, {}},
                      std::as_writable_bytes(std::span(frame.data(), frame.size())));
}

void decode_into(const Floats& out, const std::string& text, const Bytes& frame) {
  const Codec codec = value_or_raise(Codec::parse(text));
  if (!codec.takes(DType::kF32)) throw nb::value_error("this codec does not take float32");
  Status status;
  {
    const GilReleased released;
    status = codec.decode(std::as_bytes(std::span(frame.data(), frame.size())), DType::kF32,
                          std::as_writable_bytes(std::span(out.data(), out.size())));
  }
  raise_if(status);
}

nb::ndarray<nb::numpy, float> decode(const std::string& text, const Bytes& frame,
                                     std::size_t count) {
  auto values = std::make_unique_for_overwrite<float[]>(count);
  decode_into(Floats(values.get(), {count}), text, frame);
  return array_of(std::move(values), count);
}

// The dtype of this name, if the codec takes it: lossless codecs take bytes of more dtypes.
DType taken(const Codec& codec, const std::string& name, std::size_t bytes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype_name(dtype) != name) continue;
    if (!codec.takes(dtype) || bytes % dtype_bytes(dtype) != 0) break;
    return dtype;
  }
  throw nb::value_error("this codec does not take such elements");
}

std::size_t encode_bytes(const Bytes& frame, const std::string& text, const Bytes& values,
                         const std::string& name) {
  const Codec codec = value_or_raise(Codec::parse(text));
  const DType dtype = taken(codec, name, values.size());
  if (frame.size() < codec.encoded_bound(dtype, values.size() / dtype_bytes(dtype))) {
    throw nb::value_error("too little room for a frame");
  }
  const GilReleased released;
  return codec.encode({std::as_bytes(std::span(values.data(), values.size())), dtype, {}, {}},
                      std::as_writable_bytes(std::span(frame.data(), frame.size())));
}

void decode_bytes(const Bytes& out, const std::string& text, const Bytes& frame,
                  const std::string& name) {
  const Codec codec = value_or_raise(Codec::parse(text));
  const DType dtype = taken(codec, name, out.size());
  Status status;
  {
    const GilReleased released;
    status = codec.decode(std::as_bytes(std::span(frame.data(), frame.size())), dtype,
                          std::as_writable_bytes(std::span(out.data(), out.size())));
  }
  raise_if(status);
}

std::vector<std::string> codecs() {
  std::vector<std::string> names;
  for (const compress::CodecRow& row : compress::catalogue()) names.emplace_back(row.spec.name);
  return names;
}

}  // namespace

void bind_codec(nb::module_& m) {
  m.def("codecs", codecs);
  m.def("codec_text",
        [](const std::string& text) { return value_or_raise(Codec::parse(text)).text(); });
  m.def("encode", encode, "codec"_a, "values"_a, "residual"_a = nb::none(), "seed"_a = 0);
  m.def("encode_into", encode_into, "frame"_a, "codec"_a, "values"_a);
  m.def("decode", decode, "codec"_a, "frame"_a, "count"_a);
  m.def("decode_into", decode_into, "out"_a, "codec"_a, "frame"_a);
  m.def("encode_bytes", encode_bytes, "frame"_a, "codec"_a, "values"_a, "dtype"_a);
  m.def("decode_bytes", decode_bytes, "out"_a, "codec"_a, "frame"_a, "dtype"_a);
}

}  // namespace holdfast::bindings
