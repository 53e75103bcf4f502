#include "report/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 4> kNotPlotted = {"epoch", "step", "seconds", "lr"};

// The metric's name without its prefix: "loss" for train_loss and for validation_loss.
std::string_view subject_of(std::string_view column) {
  const auto underscore = column.find('_');
  return underscore == column.npos ? column : column.substr(underscore + 1);
}

PlotLine line_of(const std::string& name, const History::Column& steps, const History::Column& values) {
  PlotLine line{.name = name, .x = {}, .y = {}, .dashed = name.starts_with("validation_")};
  for (std::size_t row = 0; row < values.size(); ++row)
    if (values[row]) {
      line.x.push_back(steps[row].value_or(NAN));
      line.y.push_back(*values[row]);
    }
  return line;
}

// The range of values that an axis must cover; empty at first.
struct Extent {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void include(double value) {
    if (!(std::abs(value) < 1e300)) return;  // values that the plot does not show do not count
    low = std::min(low, value), high = std::max(high, value);
  }
  void include(const Extent& other) { low = std::min(low, other.low), high = std::max(high, other.high); }
  bool is_empty() const { return low > high; }
  double size() const { return is_empty() ? 0 : high - low; }
};

struct Subject {
  std::string_view name;
  Extent extent = {};
  int panel = 0;

  bool is_loss() const { return name.find("loss") != name.npos; }
};

// True if the new metric and each metric of the panel would cover at least half of their common range. Losses share
// panels only with losses.
bool fits(const Subject& one, std::span<const Subject> panel) {
  Extent all = one.extent;
  double least = std::numeric_limits<double>::infinity();
  const auto add = [&](const Subject& subject) {
    if (subject.extent.is_empty()) return;
    all.include(subject.extent);
    least = std::min(least, subject.extent.size());
  };
  add(one);
  for (const Subject& other : panel) add(other);
  return panel.front().is_loss() == one.is_loss() && least >= all.size() / 2;
}

// Puts each subject (a metric, with its lines of training and validation), in order, on the first panel that it fits,
// or on a new one.
void choose_panels(std::vector<Subject>& subjects) {
  std::vector<std::vector<Subject>> panels;
  for (Subject& subject : subjects) {
    const auto panel = std::ranges::find_if(panels, [&](const auto& members) { return fits(subject, members); });
    subject.panel = int(panel - panels.begin());
    if (panel == panels.end()) panels.emplace_back();
    panels[std::size_t(subject.panel)].push_back(subject);
  }
}

}  // namespace

std::vector<PlotLine> curves_of(const History& history, bool log_y) {
  std::vector<PlotLine> lines;
  std::vector<Subject> subjects;
  for (const std::string& name : history.columns()) {
    if (std::ranges::find(kNotPlotted, name) != kNotPlotted.end()) continue;
    PlotLine& line = lines.emplace_back(line_of(name, history.column("step"), history.column(name)));
    auto subject = std::ranges::find(subjects, subject_of(name), &Subject::name);
    if (subject == subjects.end()) subject = subjects.insert(subjects.end(), {subject_of(name)});
    line.color = int(subject - subjects.begin());
    for (const double y : line.y) subject->extent.include(log_y ? (y > 0 ? std::log10(y) : NAN) : y);
  }
  choose_panels(subjects);
  for (PlotLine& line : lines) line.panel = subjects[std::size_t(line.color)].panel;
  return lines;
}

}  // namespace lockstep::train
