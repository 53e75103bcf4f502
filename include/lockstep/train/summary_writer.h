// SummaryWriter: what TensorBoard shows of a run: scalars, histograms, images and texts, by step.
//
//   train::SummaryWriter writer("runs/mlp");
//   writer.add_scalar("loss/train", loss.item<double>(), step);
//   writer.add_histogram("fc1.weight", net.fc1.weight, step);
//
//   tensorboard --logdir runs
//
// The names are those of PyTorch's. One thread at a time; several writers may share a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/tensor/tensor.h>
#include <lockstep/train/history.h>

namespace lockstep::train {

struct SummaryWriterOptions {
  std::string filename_suffix = {};  ///< At the end of the file's name.
  int flush_secs = 120;  ///< What was added reaches the file after this time, with the next one that is added.
};

/// When something was: its step, and its time in seconds since 1970; now, if not given.
struct SummaryPoint {
  SummaryPoint(std::int64_t at_step = 0, std::optional<double> at_time = {}) : step(at_step), walltime(at_time) {}
  std::int64_t step;               ///< On the horizontal axis.
  std::optional<double> walltime;  ///< Seconds since 1970.
};

/// A tag names a series; slashes in it group the charts. Every function throws InvalidArgument for an empty tag, before
/// anything is written, and IoError.
class LOCKSTEP_API SummaryWriter {
 public:
  /// Makes the folder and a new event file in it. Without a folder: runs/DATE_TIME_HOST.
  explicit SummaryWriter(const std::filesystem::path& log_dir = {}, SummaryWriterOptions options = {});
  ~SummaryWriter();  ///< Flushes; what cannot be written is told on standard error.
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;  ///< What this held is closed.

  const std::filesystem::path& log_dir() const;  ///< The folder.
  const std::filesystem::path& file() const;     ///< The event file in it.

  /// Kept as a float32. NaN and infinities are shown as such.
  void add_scalar(std::string_view tag, double value, SummaryPoint at = {});
  /// `values`: of any shape, device and dtype. Waits for them. Throws InvalidArgument for none, for NaN and infinities,
  /// and for less than one bin.
  void add_histogram(std::string_view tag, const Tensor& values, SummaryPoint at = {}, int bins = 64);
  /// [channels, height, width] or [height, width]: 1 channel of grey, 2 with opacity, 3 of red, green and blue, 4 with
  /// opacity; uint8 from 0 to 255, or floating from 0 to 1 (what is outside becomes the nearest; NaN 0). Waits for it.
  /// Throws ShapeError and DTypeError.
  void add_image(std::string_view tag, const Tensor& image, SummaryPoint at = {});
  /// Shown as Markdown.
  void add_text(std::string_view tag, std::string_view markdown, SummaryPoint at = {});
  /// Each column but epoch, step and seconds as scalars, by step. The history begins at `walltime` (now, if not given).
  void add_history(const History& history, std::optional<double> walltime = {});

  void flush();
  /// Flushes. Nothing may be added afterwards: that throws InvalidArgument.
  void close();

 private:
  struct State;
  State& open(const char* op, std::string_view tag) const;

  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
