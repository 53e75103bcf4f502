// A training run as one HTML file: curves, settings, devices, memory, times, and a trace as a timeline. It opens
// without a network, and needs no other file. Safe to use from any thread.
//
//   train::write_report("run.html", history, {.title = "MLP", .settings = train::settings_of(trainer.options())});
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/runtime/device.h>
#include <lockstep/runtime/trace.h>
#include <lockstep/train/history.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train {

/// A line of the table of settings.
struct ReportSetting {
  std::string name;
  std::string value;  ///< As text.
};

/// Those of a Trainer that matter for a run.
LOCKSTEP_API std::vector<ReportSetting> settings_of(const TrainerOptions& options);

struct ReportOptions {
  std::string title = "Training run";
  std::vector<ReportSetting> settings = {};  ///< Shown as a table.
  std::vector<Device> devices = {};          ///< Whose memory is shown, as it is now; empty: try_all_gpus().
  std::vector<TraceEvent> trace = {};        ///< trace.events(); of a long one the last operations are drawn.
};

/// The file is shorter than this: of long curves it has fewer points (the greatest and the least of each stretch), of
/// long traces fewer operations, and it says so.
inline constexpr std::size_t kMostReportBytes = 1'000'000;

/// Names may hold any text: none of it becomes markup or code.
LOCKSTEP_API std::string html_report(const History& history, const ReportOptions& options = {});
/// Throws IoError; the file appears whole or not at all.
LOCKSTEP_API void write_report(const std::filesystem::path& path, const History& history,
                               const ReportOptions& options = {});

}  // namespace lockstep::train
