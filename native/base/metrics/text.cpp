#include "base/metrics/text.h"

#include <array>
#include <charconv>
#include <cmath>

namespace holdfast::metrics {
namespace {

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string_view type_name(Type type, TextFormat format) {
  switch (type) {
    case Type::kCounter: return "counter";
    case Type::kGauge: return "gauge";
    case Type::kHistogram: return "histogram";
    case Type::kInfo: return format == TextFormat::kOpenMetrics ? "info" : "gauge";
  }
  return "unknown";
}

std::string_view sample_suffix(Type type) {
  switch (type) {
    case Type::kCounter: return "_total";
    case Type::kInfo: return "_info";
    default: return "";
  }
}

// For label values and help; both formats have the same escapes.
void add_escaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

}  // namespace

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

TextFormat format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos
             ? TextFormat::kPlain
             : TextFormat::kOpenMetrics;
}

std::string_view content_type(TextFormat format) {
  return format == TextFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

void TextEncoder::family(const Family& family) {
  family_ = family;
  std::string name(family.name);
  // The older format names a family after its samples.
  if (format_ == TextFormat::kPlain) name += sample_suffix(family.type);
  text_ += "# TYPE " + name + " ";
  text_ += type_name(family.type, format_);
  if (format_ == TextFormat::kOpenMetrics && !family.unit.empty()) {
    text_ += "\n# UNIT " + name + " ";
    text_ += family.unit;
  }
  text_ += "\n# HELP " + name + " ";
  add_escaped(text_, family.help);
  text_ += '\n';
}

void TextEncoder::add_label(const Label& label) {
  text_ += label.first;
  text_ += "=\"";
  add_escaped(text_, label.second);
  text_ += '"';
}

void TextEncoder::add_labels(Labels labels, const Label* extra) {
  if (labels.size() == 0 && extra == nullptr) return;
  char before = '{';
  for (const Label& label : labels) {
    text_ += before;
    add_label(label);
    before = ',';
  }
  if (extra != nullptr) {
    text_ += before;
    add_label(*extra);
  }
  text_ += '}';
}

void TextEncoder::begin_line(std::string_view suffix, Labels labels, const Label* extra) {
  text_ += family_.name;
  text_ += suffix;
  add_labels(labels, extra);
  text_ += ' ';
}

void TextEncoder::sample(Labels labels, std::uint64_t value) {
  begin_line(sample_suffix(family_.type), labels);
  text_ += std::to_string(value) + "\n";
}

void TextEncoder::sample(Labels labels, double value) {
  begin_line(sample_suffix(family_.type), labels);
  text_ += number_text(value) + "\n";
}

void TextEncoder::sample(Labels labels, Duration value) { sample(labels, seconds(value)); }

void TextEncoder::add_exemplar(const Exemplar& exemplar) {
  text_ += " # {op=\"" + hex(exemplar.group) + ":" + std::to_string(exemplar.sequence) + "\"} " +
           number_text(seconds(exemplar.value)) + " " +
           number_text(seconds(exemplar.at.since_origin + wall_offset_));
}

// Counters may grow while they are read: the buckets are read once, and all else is computed from
// them.
void TextEncoder::histogram(Labels labels, const Histogram& histogram) {
  std::uint64_t below = 0;
  for (int b = 0; b < Histogram::kBuckets; ++b) {
    below += histogram.count(b);
    const bool last = b == Histogram::kBounds;
    const std::string bound = last ? "+Inf" : number_text(seconds(Histogram::bound(b)));
    const Label le{"le", bound};
    begin_line("_bucket", labels, &le);
    text_ += std::to_string(below);
    const auto exemplar = histogram.exemplar(b);
    if (format_ == TextFormat::kOpenMetrics && exemplar) add_exemplar(*exemplar);
    text_ += '\n';
  }
  begin_line("_sum", labels);
  text_ += number_text(seconds(histogram.sum())) + "\n";
  begin_line("_count", labels);
  text_ += std::to_string(below) + "\n";
}

std::string TextEncoder::take() {
  if (format_ == TextFormat::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace holdfast::metrics
