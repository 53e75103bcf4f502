// Line plots as SVG, in one self-contained file. Safe to use from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep::train {

/// One line of a plot.
struct PlotLine {
  std::string name;
  /// Coordinates of the points, as many x as y. A point that is not finite, or is 1e300 or more in magnitude,
  /// interrupts the line.
  std::vector<double> x, y;
  int color = 0;        ///< Index into a palette that repeats.
  bool dashed = false;  ///< Drawn in dashes.
  int panel = 0;  ///< Lines of one panel share an axis. Panels are stacked vertically, in the order of their numbers.
};

struct PlotOptions {
  std::string title = {};        ///< Shown above the plot; none if empty.
  std::string x_label = "step";  ///< Below the horizontal axis.
  bool log_y = false;            ///< Logarithmic axis; values that are not positive interrupt the line.
  int width = 720;               ///< Pixels.
  int height = 420;              ///< Pixels per panel.
};

/// Each panel has axes with round numbers, a legend, and its lines. All panels have the same x axis. Names may contain
/// any UTF-8. Throws InvalidArgument for a line whose x and y differ in length, or a size under 200 by 150.
LOCKSTEP_API std::string svg_plot(std::span<const PlotLine> lines, const PlotOptions& options = {});

}  // namespace lockstep::train
