// A training run as one self-contained HTML file: curves, settings, devices, memory, times, and a trace as a timeline.
// It opens offline. Safe to use from any thread.
//
//   train::write_report("run.html", history, {.title = "MLP", .settings = train::settings_of(trainer.options())});
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/report/history.h>
#include <lockstep/runtime/device.h>
#include <lockstep/runtime/trace.h>

namespace lockstep::train {

/// A row of the table of settings.
struct ReportSetting {
  std::string name;
  std::string value;  ///< As text.
};

struct ReportOptions {
  std::string title = "Training run";
  std::vector<ReportSetting> settings = {};  ///< Shown as a table.
  std::vector<Device> devices = {};          ///< Devices whose current memory use is shown; empty: try_all_gpus().
  std::vector<TraceEvent> trace = {};        ///< trace.events(); of a long trace only the last operations are drawn.
  std::size_t planned_bytes = 0;  ///< On each device, by memory_plan(): shown beside the peak. 0: there is no plan.
};

/// Upper bound on the file's size. To stay below it, the report shortens long curves (to the least and the greatest
/// point of each interval) and long traces, and says so.
inline constexpr std::size_t kMaxReportBytes = 1'000'000;

/// Returns the report as HTML. Names may contain any text: it is escaped.
LOCKSTEP_API std::string html_report(const History& history, const ReportOptions& options = {});
/// Throws IoError; the file is written atomically.
LOCKSTEP_API void write_report(const std::filesystem::path& path, const History& history,
                               const ReportOptions& options = {});

}  // namespace lockstep::train
