// The columns of a history as lines: which share a color, and which an axis. Pure functions.
#pragma once

#include <vector>

#include <lockstep/train/history.h>

namespace lockstep::train {

/// Of each column but epoch, step, seconds and lr, by step. A metric (accuracy) is one color, in training and in
/// validation, and one panel. Metrics share a panel only if none is flattened by another: if each reaches over half of
/// the panel at least. Losses share none with what is no loss.
std::vector<PlotLine> curves_of(const History& history, bool log_y);

}  // namespace lockstep::train
