// Turns the columns of a history into plot lines, with colours and panels. Pure functions.
#pragma once

#include <vector>

#include <lockstep/report/history.h>

namespace lockstep::train {

/// One line for each column except epoch, step, seconds and lr, by step. The training and validation lines of a metric
/// (such as accuracy) share a colour and a panel. Metrics share a panel only if each covers at least half of its range,
/// so that none is flattened. Losses never share a panel with other metrics.
std::vector<PlotLine> curves_of(const History& history, bool log_y);

}  // namespace lockstep::train
