// Line plots as SVG: one file without references to others. Safe to use from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/core/export.h>

namespace lockstep::train {

/// One line of a plot.
struct PlotLine {
  std::string name;
  std::vector<double> x, y;  ///< Of one length. A point that is not finite, or of 1e300 and more, interrupts the line.
  int color = 0;             ///< Of a list that begins anew after its end.
  bool dashed = false;       ///< Drawn in dashes.
  int panel = 0;             ///< Lines of one panel share an axis. Panels lie one below the other, by their numbers.
};

struct PlotOptions {
  std::string title = {};        ///< Above the plot; none if empty.
  std::string x_label = "step";  ///< Below the horizontal axis.
  bool log_y = false;            ///< Values that are not positive interrupt the line then.
  int width = 720;               ///< Pixels.
  int height = 420;              ///< Pixels, of each panel.
};

/// For each panel axes with round numbers, a legend, and the lines. All panels have the same x axis. Names may hold any
/// UTF-8. Throws InvalidArgument for a line whose x and y differ in length, or a size under 200 by 150.
LOCKSTEP_API std::string svg_plot(std::span<const PlotLine> lines, const PlotOptions& options = {});

}  // namespace lockstep::train
