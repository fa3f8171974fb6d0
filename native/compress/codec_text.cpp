// Codecs as text, such as "int8(block=64,stochastic)", for options and errors, and for ranks that
// compare their codecs.
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "base/check.h"
#include "compress/codec.h"

namespace holdfast::compress {
namespace {

constexpr std::string_view kAccepted =
    "block=N, level=N, ratio=X, nearest, stochastic, symmetric, minmax, rms, l1, fast, dense";

Status refuse(std::string_view text, const std::string& what) {
  constexpr std::size_t kShown = 60;
  return {Code::kConfigError, "codec \"" + std::string(text.substr(0, kShown)) + "\": " + what};
}

template <class T>
bool read(std::string_view word, std::string_view key, T& value) {
  if (!word.starts_with(key)) return false;
  word.remove_prefix(key.size());
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

bool apply(std::string_view word, CodecOptions& options) {
  if (word == "nearest" || word == "stochastic") {
    options.rounding = word == "nearest" ? Rounding::kNearest : Rounding::kStochastic;
    return true;
  }
  if (word == "symmetric" || word == "minmax") {
    options.grid = word == "symmetric" ? Grid::kSymmetric : Grid::kMinMax;
    return true;
  }
  if (word == "rms" || word == "l1") {
    options.sign_scale = word == "rms" ? SignScale::kRms : SignScale::kL1;
    return true;
  }
  if (word == "fast" || word == "dense") {
    options.tier = word == "fast" ? Tier::kFast : Tier::kDense;
    return true;
  }
  return read(word, "block=", options.block) || read(word, "ratio=", options.ratio) ||
         read(word, "level=", options.zstd_level);
}

std::string ratio_text(double ratio) {
  std::array<char, 24> digits{};
  constexpr int kDigits = 9;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), ratio,
                                 std::chars_format::general, kDigits);
  return "ratio=" + std::string(digits.data(), end.ptr);
}

// The options that the codec uses: those that are numbers, and words that are not the default.
std::vector<std::string> words_of(const CodecUses& uses, const CodecOptions& o) {
  std::vector<std::string> words;
  if (uses.block) words.push_back("block=" + std::to_string(o.block));
  if (uses.grid && o.grid == Grid::kMinMax) words.emplace_back("minmax");
  if (uses.rounding && o.rounding == Rounding::kStochastic) words.emplace_back("stochastic");
  if (uses.sign_scale && o.sign_scale == SignScale::kL1) words.emplace_back("l1");
  if (uses.ratio) words.push_back(ratio_text(o.ratio));
  if (uses.level) words.push_back("level=" + std::to_string(o.zstd_level));
  if (uses.tier && o.tier == Tier::kDense) words.emplace_back("dense");
  return words;
}

}  // namespace

std::string Codec::text() const {
  std::string inner;
  for (const std::string& word : words_of(row_->spec.uses, setup_.options)) {
    inner += (inner.empty() ? "" : ",") + word;
  }
  std::string text = std::string(row_->spec.name) + (inner.empty() ? "" : "(" + inner + ")");
  CHECK(text.size() <= kMostCodecText);
  return text;
}

Result<Codec> Codec::parse(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('('));
  const CodecRow* row = compress::find(name);
  if (row == nullptr) return make(name);
  CodecOptions options = default_options(row->spec.id);
  std::string_view rest = text.substr(name.size());
  if (!rest.empty()) {
    if (!rest.ends_with(')')) return refuse(text, "has no end; accepted: NAME(WORD,...)");
    rest = rest.substr(1, rest.size() - 2);
  }
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    if (!apply(word, options)) {
      return refuse(text,
                    "cannot read " + std::string(word) + "; accepted: " + std::string(kAccepted));
    }
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return make(name, options);
}

}  // namespace holdfast::compress
