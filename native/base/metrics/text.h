// Text: metrics as Prometheus reads them, in one of two formats: OpenMetrics 1.0 (families without
// _total, units, exemplars, # EOF) and the older text format 0.0.4. Values in, text out.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/metrics/instruments.h"

namespace holdfast::metrics {

enum class TextFormat { kOpenMetrics, kPlain };

// The format that the request's header Accept asks for.
TextFormat format_for(std::string_view accept);
std::string_view content_type(TextFormat format);

enum class Type { kCounter, kGauge, kHistogram, kInfo };

struct Family {
  std::string_view name;  // without _total, _info, _bucket
  Type type;
  std::string_view unit;  // a suffix of the name, or empty
  std::string_view help;
  // For the reference: names of the labels, and what `help` has no room for.
  std::string_view labels = {};
  std::string_view more = {};
};

using Label = std::pair<std::string_view, std::string_view>;
using Labels = std::initializer_list<Label>;

class TextEncoder {
 public:
  // `wall_offset`: added to a monotonic instant it makes wall-clock time, which exemplars carry.
  explicit TextEncoder(TextFormat format, Duration wall_offset = {})
      : format_(format), wall_offset_(wall_offset) {}

  // Begins a family; the samples that follow belong to it.
  void family(const Family& family);
  void sample(Labels labels, std::uint64_t value);
  void sample(Labels labels, double value);
  void sample(Labels labels, Duration value);  // in seconds
  // Adds the sum, the count, and every bucket.
  void histogram(Labels labels, const Histogram& histogram);

  std::string take();

 private:
  void begin_line(std::string_view suffix, Labels labels, const Label* extra = nullptr);
  void add_labels(Labels labels, const Label* extra);
  void add_label(const Label& label);
  void add_exemplar(const Exemplar& exemplar);

  TextFormat format_;
  Duration wall_offset_;
  Family family_{};
  std::string text_;
};

// The shortest text of the number.
std::string number_text(double value);

}  // namespace holdfast::metrics
