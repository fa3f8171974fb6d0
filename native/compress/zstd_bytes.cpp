#include "compress/zstd_bytes.h"

#ifdef HOLDFAST_ZSTD
#define ZSTD_STATIC_LINKING_ONLY  // for the literals' mode, in libzstd since 1.3.8
#include <zstd.h>
#endif

namespace holdfast::compress {

#ifdef HOLDFAST_ZSTD

namespace {
ZSTD_CCtx* encoding(void* context) { return static_cast<ZSTD_CCtx*>(context); }
ZSTD_DCtx* decoding(void* context) { return static_cast<ZSTD_DCtx*>(context); }
}  // namespace

bool has_zstd() { return true; }

ZstdEncoder::ZstdEncoder(int level, Repetitions repetitions) : context_(ZSTD_createCCtx()) {
  if (context_ == nullptr) return;
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    ZSTD_CCtx_setParameter(encoding(context_), parameter, value);
  };
  set(ZSTD_c_compressionLevel, level);
  set(ZSTD_c_contentSizeFlag, 0);
  if (repetitions == Repetitions::kIgnore) {
    set(ZSTD_c_strategy, ZSTD_fast);
    set(ZSTD_c_minMatch, 7);
    set(ZSTD_c_hashLog, 6);
    set(ZSTD_c_targetLength, 1 << 16);  // bytes between two searches
    set(ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman);
  }
}

ZstdEncoder::~ZstdEncoder() { ZSTD_freeCCtx(encoding(context_)); }

std::size_t ZstdEncoder::encode(std::span<const std::byte> from, std::span<std::byte> to) {
  if (context_ == nullptr) return 0;
  const std::size_t size =
      ZSTD_compress2(encoding(context_), to.data(), to.size(), from.data(), from.size());
  return ZSTD_isError(size) != 0 ? 0 : size;
}

ZstdDecoder::ZstdDecoder() = default;
ZstdDecoder::~ZstdDecoder() { ZSTD_freeDCtx(decoding(context_)); }

bool ZstdDecoder::decode(std::span<const std::byte> from, std::span<std::byte> to) {
  if (context_ == nullptr) context_ = ZSTD_createDCtx();
  if (context_ == nullptr) return false;
  const std::size_t size =
      ZSTD_decompressDCtx(decoding(context_), to.data(), to.size(), from.data(), from.size());
  return ZSTD_isError(size) == 0 && size == to.size();
}

#else

bool has_zstd() { return false; }

ZstdEncoder::ZstdEncoder(int, Repetitions) : context_(nullptr) {}
ZstdEncoder::~ZstdEncoder() = default;
std::size_t ZstdEncoder::encode(std::span<const std::byte>, std::span<std::byte>) { return 0; }
ZstdDecoder::ZstdDecoder() = default;
ZstdDecoder::~ZstdDecoder() = default;
bool ZstdDecoder::decode(std::span<const std::byte>, std::span<std::byte>) { return false; }

#endif

}  // namespace holdfast::compress
