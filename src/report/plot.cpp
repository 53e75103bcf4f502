#include <lockstep/report/plot.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include <lockstep/core/error.h>

#include "core/digits.h"
#include "core/expect.h"
#include "core/text.h"
#include "report/markup.h"

namespace lockstep::train {
namespace {

// Okabe and Ito's palette, which is safe for color-blind readers, without black and yellow.
constexpr std::array<const char*, 6> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"};
constexpr double kLetterWidth = 6.6, kLegendSample = 22, kLegendGap = 18, kLegendRow = 18;  // pixels, at 12 px
constexpr double kRight = 26;                 // margin to the right of the axes
constexpr double kAlmostZero = 1e-300;        // below this, tick steps may be subnormal
constexpr std::size_t kMaxMarkedPoints = 40;  // lines with up to this many points get a mark at each

std::string pixels(double value) { return digits_of(value, std::chars_format::fixed, 2); }

std::string label(double value) { return digits_of(value, std::chars_format::general, std::abs(value) < 1e6 ? 6 : 3); }

std::size_t letters(std::string_view utf8) {
  return std::size_t(std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; }));
}

// One axis: its range of values, and their positions in pixels.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;  // logarithms, if the axis is logarithmic
  double first_pixel = 0, last_pixel = 0;
  bool log = false;
  std::vector<double> ticks;

  double scale(double value) const { return log ? value > 0 ? std::log10(value) : NAN : value; }
  void include(double value) {
    low = std::min(low, scale(value));
    high = std::max(high, scale(value));
  }
  bool has(double value) const { return std::abs(scale(value)) < 1e300; }  // so that high - low is finite
  double pixel(double value) const {
    return first_pixel + (scale(value) - low) / (high - low) * (last_pixel - first_pixel);
  }

  // Places about `count` ticks at round numbers. With `to_ticks`, the axis begins and ends at a tick.
  void settle(int count, bool whole, bool to_ticks) {
    if (!(low <= high)) low = 0, high = 1;
    // A range at the level of rounding errors, or of almost 0, is too small for ticks, so it is widened.
    const double largest = std::max({std::abs(low), std::abs(high), log ? 1. : 0.});
    if (high - low <= std::max(1e-12 * largest, kAlmostZero)) {
      const double room = log ? 0.5 : largest <= kAlmostZero ? 1 : largest / 10;
      low -= room, high += room;
    }
    if (log) return settle_log(count);
    double step = round_step(high - low, count);
    if (whole) step = std::max(1., step);
    if (to_ticks) low = std::floor(low / step) * step, high = std::ceil(high / step) * step;
    add_multiples(step, low, high);
  }

  // Places ticks at each power of ten, or at each n-th power; on a range of few decades also at 2 and 5 times a power.
  // If that gives fewer than two ticks, places the ticks of a linear axis.
  void settle_log(int count) {
    const double room = 0.03 * (high - low);
    low -= room, high += room;
    const int stride = std::max(1, int(std::ceil((high - low) / count)));
    for (int power = int(std::floor(low)); power <= int(high); ++power)
      for (const double factor : {1., 2., 5.}) {
        const double tick = factor * std::pow(10., power), at = scale(tick);
        const bool wanted = factor == 1 ? power % stride == 0 : high - low < 2.5;
        if (wanted && at >= low && at <= high) ticks.push_back(tick);
      }
    if (ticks.size() >= 2 || std::abs(low) > 300) return;  // 10^low would be outside the range of double
    ticks.clear();
    const double first = std::pow(10., low), last = std::pow(10., high);
    add_multiples(round_step(last - first, count), first, last);
  }

  // Returns the smallest step of the form 1, 2 or 5 times a power of ten that divides `range` into at most `count`
  // parts.
  static double round_step(double range, int count) {
    const double rough = range / count, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1., 2., 5.})
      if (factor * power >= rough) return factor * power;
    return 10 * power;
  }

  void add_multiples(double step, double first, double last) {
    const double begin = std::ceil(first / step - 1e-9), end = std::floor(last / step + 1e-9);
    for (double k = begin; k <= end; ++k) ticks.push_back(k * step + 0.);  // not -0
  }
};

class Panel {
 public:
  Panel(std::span<const PlotLine* const> lines, const PlotOptions& options)
      : lines_(lines.begin(), lines.end()), options_(options) {
    place_legend();
    y_.log = options.log_y;
    for (const PlotLine* line : lines_)
      for (std::size_t i = 0; i < line->x.size(); ++i)
        if (shows(*line, i)) {
          x_.include(line->x[i]);
          y_.include(line->y[i]);
          whole_ = whole_ && line->x[i] == std::floor(line->x[i]);
        }
    y_.first_pixel = options.height - 46, y_.last_pixel = top_;
    y_.settle(6, false, true);
    double widest = 0;
    for (const double tick : y_.ticks) widest = std::max(widest, kLetterWidth * double(label(tick).size()));
    x_.first_pixel = widest + 20, x_.last_pixel = options.width - kRight;
  }

  /// Gives all panels the same x axis.
  static void align(std::span<Panel> panels) {
    Axis common;
    bool whole = true;
    for (const Panel& panel : panels) {
      common.low = std::min(common.low, panel.x_.low), common.high = std::max(common.high, panel.x_.high);
      common.first_pixel = std::max(common.first_pixel, panel.x_.first_pixel);
      common.last_pixel = panel.x_.last_pixel;
      whole = whole && panel.whole_;
    }
    common.settle(std::max(2, panels[0].options_.width / 90), whole, false);
    for (Panel& panel : panels) panel.x_ = common;
  }

  std::string draw() {
    if (!options_.title.empty()) write(options_.width / 2., 22, "middle", options_.title, " font-size=\"15\"");
    draw_axes();
    for (const PlotLine* line : lines_) draw_line(*line);
    draw_legend();
    return out_;
  }

 private:
  bool shows(const PlotLine& line, std::size_t i) const { return x_.has(line.x[i]) && y_.has(line.y[i]); }

  void write(double x, double y, const char* anchor, const std::string& what, const char* more = "") {
    out_ += text("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\" text-anchor=\"", anchor, '"', more, '>',
                 escaped(what), "</text>\n");
  }
  void rule(double x1, double y1, double x2, double y2, const char* color) {
    out_ += text("<path d=\"M", pixels(x1), ' ', pixels(y1), 'L', pixels(x2), ' ', pixels(y2), "\" stroke=\"", color,
                 "\"/>\n");
  }

  void draw_axes() {
    for (const double tick : y_.ticks) {
      rule(x_.first_pixel, y_.pixel(tick), x_.last_pixel, y_.pixel(tick), "#e4e4e4");
      write(x_.first_pixel - 8, y_.pixel(tick) + 4, "end", label(tick));
    }
    for (const double tick : x_.ticks) {
      rule(x_.pixel(tick), y_.first_pixel, x_.pixel(tick), y_.first_pixel + 5, "#888");
      write(x_.pixel(tick), y_.first_pixel + 19, "middle", label(tick));
    }
    rule(x_.first_pixel, y_.first_pixel, x_.last_pixel, y_.first_pixel, "#888");
    write((x_.first_pixel + x_.last_pixel) / 2, options_.height - 8, "middle", options_.x_label);
  }

  std::string style(const PlotLine& line) const {
    return text(" stroke=\"", kColors[std::size_t(line.color) % kColors.size()], "\" stroke-width=\"1.8\"",
                line.dashed ? " stroke-dasharray=\"6 4\"" : "");
  }

  void draw_line(const PlotLine& line) {
    std::string path, marks;
    const bool mark_all = line.x.size() <= kMaxMarkedPoints;
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      if (!shows(line, i)) continue;
      const bool after = i > 0 && shows(line, i - 1), before = i + 1 < line.x.size() && shows(line, i + 1);
      const std::string x = pixels(x_.pixel(line.x[i])), y = pixels(y_.pixel(line.y[i]));
      path += text(after ? 'L' : 'M', x, ' ', y);
      if (mark_all || !(after || before)) marks += text("<circle cx=\"", x, "\" cy=\"", y, "\" r=\"2.4\"/>\n");
    }
    if (path.empty()) return;
    out_ += text("<path d=\"", path, "\" fill=\"none\" stroke-linejoin=\"round\"", style(line), "/>\n");
    if (!marks.empty())
      out_ += text("<g fill=\"", kColors[std::size_t(line.color) % kColors.size()], "\">\n", marks, "</g>\n");
  }

  // Places the legend in rows above the axes.
  void place_legend() {
    double x = 20, y = options_.title.empty() ? 20 : 46;
    for (const PlotLine* line : lines_) {
      const double width = kLegendSample + 6 + kLetterWidth * double(letters(line->name)) + kLegendGap;
      if (x > 20 && x + width - kLegendGap > options_.width - kRight) x = 20, y += kLegendRow;
      legend_.push_back({x, y});
      x += width;
    }
    top_ = std::min(y + 16, options_.height - 80.);
  }

  void draw_legend() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const auto [x, y] = legend_[i];
      out_ += text("<path d=\"M", pixels(x), ' ', pixels(y - 4), 'h', kLegendSample, "\" fill=\"none\"",
                   style(*lines_[i]), "/>\n");
      write(x + kLegendSample + 6, y, "start", lines_[i]->name);
    }
  }

  struct Point {
    double x, y;
  };
  std::vector<const PlotLine*> lines_;
  PlotOptions options_;
  Axis x_, y_;
  bool whole_ = true;  // all x are integers
  std::vector<Point> legend_;
  double top_ = 0;
  std::string out_;
};

}  // namespace

std::string svg_plot(std::span<const PlotLine> lines, const PlotOptions& options) {
  expect(options.width >= 200 && options.height >= 150, "plot", "at least 200 by 150 pixels, got ", options.width,
         " by ", options.height);
  for (const PlotLine& line : lines)
    expect(line.x.size() == line.y.size() && line.color >= 0, "plot", "as many x as y in ", line.name,
           " and a color of at least 0, got ", line.x.size(), ", ", line.y.size(), " and ", line.color);
  std::map<int, std::vector<const PlotLine*>> by_number;
  for (const PlotLine& line : lines) by_number[line.panel].push_back(&line);
  if (by_number.empty()) by_number[0];
  std::vector<Panel> panels;
  PlotOptions of_panel = options;
  for (const auto& [number, members] : by_number) {
    panels.emplace_back(members, of_panel);
    of_panel.title.clear();  // the title is above the first panel only
  }
  Panel::align(panels);
  const auto height = std::int64_t(options.height) * std::int64_t(panels.size());
  std::string out = text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", options.width, "\" height=\"", height,
                         "\" viewBox=\"0 0 ", options.width, ' ', height,
                         "\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#333\">\n");
  if (!options.title.empty()) out += text("<title>", escaped(options.title), "</title>\n");
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (std::size_t i = 0; i < panels.size(); ++i)
    out += i == 0 ? panels[i].draw()
                  : text("<g transform=\"translate(0 ", std::int64_t(options.height) * std::int64_t(i), ")\">\n",
                         panels[i].draw(), "</g>\n");
  return out + "</svg>\n";
}

}  // namespace lockstep::train
