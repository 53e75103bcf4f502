#include <lockstep/report/summary_writer.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/core/moved_from.h>

#include "core/text.h"
#include "io/png_bytes.h"
#include "io/record_file.h"
#include "report/event_messages.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

fs::path default_folder() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  std::array<char, 64> date = {};
  std::strftime(date.data(), date.size(), "%b%d_%H-%M-%S", &local);
  return fs::path("runs") / text(date.data(), '_', host_name());
}

// TensorBoard reads a folder's files in order of their names, which begin with the time. Names are unique.
fs::path new_file_in(const fs::path& folder, const std::string& suffix) {
  static std::atomic<int> files = 0;
  return folder /
         text("events.out.tfevents.", std::time(nullptr), '.', host_name(), '.', ::getpid(), '.', files++, suffix);
}

fs::path made(const fs::path& folder) {
  const fs::path path = folder.empty() ? default_folder() : folder;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw IoError("create_directories", path.string(), error.value());
  return path;
}

std::uint8_t byte_of_unit(double value) {
  return value > 0 ? std::uint8_t(std::lround(std::min(value, 1.) * 255)) : std::uint8_t(0);  // NaN is not > 0
}

}  // namespace

struct SummaryWriter::State {
  State(const fs::path& folder, SummaryWriterOptions how)
      : options(std::move(how)), log_dir(made(folder)), file(new_file_in(log_dir, options.filename_suffix)) {
    file.add(version_event(seconds_since_1970()).bytes());
    file.flush();
  }

  void add(const SummaryPoint& at, const Message& value) {
    file.add(summary_event(at.walltime.value_or(seconds_since_1970()), at.step, value).bytes());
    const auto now = std::chrono::steady_clock::now();
    if (now - flushed < std::chrono::seconds(options.flush_secs)) return;
    file.flush();
    flushed = now;
  }

  const SummaryWriterOptions options;
  const fs::path log_dir;
  RecordFile file;
  bool is_closed = false;
  std::chrono::steady_clock::time_point flushed = std::chrono::steady_clock::now();
};

SummaryWriter::SummaryWriter(const fs::path& log_dir, SummaryWriterOptions options) {
  if (options.filename_suffix.find('/') != std::string::npos)
    throw InvalidArgument(text("[SummaryWriter] expected a filename_suffix without /, got ", options.filename_suffix));
  state_ = std::make_unique<State>(log_dir, std::move(options));
}
SummaryWriter::~SummaryWriter() = default;
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;

const fs::path& SummaryWriter::log_dir() const {
  return lockstep::detail::checked_deref(state_, "SummaryWriter", "a writer").log_dir;
}
const fs::path& SummaryWriter::file() const {
  return lockstep::detail::checked_deref(state_, "SummaryWriter", "a writer").file.path();
}

SummaryWriter::State& SummaryWriter::open(const char* op, std::string_view tag) const {
  State& state = lockstep::detail::checked_deref(state_, "SummaryWriter", "a writer");
  if (state.is_closed) throw InvalidArgument(text('[', op, "] expected a writer that is open, got a closed one"));
  if (tag.empty()) throw InvalidArgument(text('[', op, "] expected a tag, got an empty one"));
  return state;
}

void SummaryWriter::add_scalar(std::string_view tag, double value, SummaryPoint at) {
  open("add_scalar", tag).add(at, scalar_value(tag, value));
}

void SummaryWriter::add_histogram(std::string_view tag, const Tensor& values, SummaryPoint at, int bins) {
  State& state = open("add_histogram", tag);
  if (bins < 1 || !values.defined() || values.numel() == 0)
    throw InvalidArgument(text("[add_histogram] expected values and at least 1 bin for ", tag, ", got ",
                               values.defined() ? values.numel() : 0, " values and ", bins));
  const std::vector<double> numbers = values.to(Device(), kFloat64).to_vector<double>();
  const auto finite = std::ranges::count_if(numbers, [](double value) { return std::isfinite(value); });
  if (std::size_t(finite) != numbers.size())
    throw InvalidArgument(text("[add_histogram] expected finite values for ", tag, ", got ",
                               numbers.size() - std::size_t(finite), " of ", numbers.size(), " that are not"));
  state.add(at, histogram_value(tag, numbers, bins));
}

void SummaryWriter::add_image(std::string_view tag, const Tensor& image, SummaryPoint at) {
  State& state = open("add_image", tag);
  const bool is_grey = image.defined() && image.dim() == 2;
  if (!image.defined() || image.numel() == 0 || (!is_grey && (image.dim() != 3 || image.size(0) > 4)))
    throw ShapeError(text("[add_image] expected [1 to 4 channels, height, width] or [height, width] for ", tag,
                          ", got ", image.defined() ? text(image.sizes()) : "no tensor"));
  if (image.dtype() != kUInt8 && !is_floating(image.dtype()))
    throw DTypeError(text("[add_image] expected uint8 or a floating dtype for ", tag, ", got ", image.dtype()));
  const std::int64_t channels = is_grey ? 1 : image.size(0), height = image.size(-2), width = image.size(-1);
  const std::vector<double> values = image.to(Device(), kFloat64).to_vector<double>();
  std::vector<std::uint8_t> pixels;
  pixels.reserve(values.size());
  for (std::int64_t place = 0; place < height * width; ++place)
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const double value = values[std::size_t(channel * height * width + place)];
      pixels.push_back(image.dtype() == kUInt8 ? std::uint8_t(value) : byte_of_unit(value));
    }
  const std::string png = png_bytes(pixels, std::uint32_t(width), std::uint32_t(height), int(channels));
  state.add(at, image_value(tag, int(height), int(width), int(channels), png));
}

void SummaryWriter::add_text(std::string_view tag, std::string_view markdown, SummaryPoint at) {
  open("add_text", tag).add(at, text_value(tag, markdown));
}

void SummaryWriter::add_history(const History& history, std::optional<double> walltime) {
  State& state = open("add_history", "history");
  const auto has = [&](std::string_view name) {
    return std::ranges::find(history.columns(), name) != history.columns().end();
  };
  const History::Column none(history.rows());
  const History::Column& steps = has("step") ? history.column("step") : none;
  const History::Column& seconds = has("seconds") ? history.column("seconds") : none;
  const double began = walltime.value_or(seconds_since_1970());
  for (const std::string& name : history.columns()) {
    if (name.empty() || name == "epoch" || name == "step" || name == "seconds") continue;
    const History::Column& column = history.column(name);
    for (std::size_t row = 0; row < column.size(); ++row)
      if (column[row])
        state.add({std::int64_t(steps[row].value_or(double(row))), began + seconds[row].value_or(0)},
                  scalar_value(name, *column[row]));
  }
}

void SummaryWriter::flush() { open("flush", "flush").file.flush(); }

void SummaryWriter::close() {
  State& state = lockstep::detail::checked_deref(state_, "SummaryWriter", "a writer");
  if (std::exchange(state.is_closed, true)) return;
  state.file.flush();
}

}  // namespace lockstep::train
