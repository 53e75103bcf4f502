// SummaryWriter: scalars, histograms, images and texts by step, for TensorBoard.
//
//   train::SummaryWriter writer("runs/mlp");
//   writer.add_scalar("loss/train", loss.item<double>(), step);
//   writer.add_histogram("fc1.weight", net.fc1.weight, step);
//
//   tensorboard --logdir runs
//
// The names are PyTorch's. One thread at a time; several writers may share a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/report/history.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::train {

struct SummaryWriterOptions {
  std::string filename_suffix = {};  ///< Appended to the file's name.
  int flush_secs = 120;              ///< The first addition after this many seconds flushes the file.
};

/// The step of an entry, and its time in seconds since 1970, by default now.
struct SummaryPoint {
  SummaryPoint(std::int64_t at_step = 0, std::optional<double> at_time = {}) : step(at_step), walltime(at_time) {}
  std::int64_t step;               ///< On the horizontal axis.
  std::optional<double> walltime;  ///< Seconds since 1970.
};

/// A tag names a series; slashes in tags group the charts. Every function throws InvalidArgument for an empty tag,
/// before anything is written, and IoError.
class LOCKSTEP_API SummaryWriter {
 public:
  /// Creates the folder and a new event file in it. The default folder is runs/DATE_TIME_HOST.
  explicit SummaryWriter(const std::filesystem::path& log_dir = {}, SummaryWriterOptions options = {});
  ~SummaryWriter();  ///< Flushes; a failure to write is reported on standard error.
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;  ///< Closes the file that this held.

  const std::filesystem::path& log_dir() const;  ///< The folder.
  const std::filesystem::path& file() const;     ///< The event file in it.

  /// Stored as float32. TensorBoard shows NaN and infinities as such.
  void add_scalar(std::string_view tag, double value, SummaryPoint at = {});
  /// `values`: of any shape, device and dtype. Waits for them. Throws InvalidArgument for no values, for NaN and
  /// infinities, and for bins < 1.
  void add_histogram(std::string_view tag, const Tensor& values, SummaryPoint at = {}, int bins = 64);
  /// [channels, height, width] or [height, width]. Channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. uint8 from 0 to
  /// 255, or floating from 0 to 1 (clamped; NaN becomes 0). Waits for the image. Throws ShapeError and DTypeError.
  void add_image(std::string_view tag, const Tensor& image, SummaryPoint at = {});
  /// Shown as Markdown.
  void add_text(std::string_view tag, std::string_view markdown, SummaryPoint at = {});
  /// Adds each column except epoch, step and seconds as scalars, by step. The history starts at `walltime` (default:
  /// now).
  void add_history(const History& history, std::optional<double> walltime = {});

  void flush();
  /// Flushes. Later additions throw InvalidArgument.
  void close();

 private:
  struct State;
  State& open(const char* op, std::string_view tag) const;

  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train
