#include <lockstep/train/trainer.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text.h"
#include "runtime/registry.h"

namespace lockstep::train {
namespace {

std::string what_is_there() {
  std::string names = "cpu";
  for (const Device& device : visible_gpus()) names += text(", ", device);
  return names;
}

[[noreturn]] void refuse(const std::string& expected, const std::string& got) {
  throw InvalidArgument(text("[trainer] expected ", expected, ", got ", got));
}

std::vector<Device> first_gpus(int count) {
  std::vector<Device> devices = visible_gpus();
  if (count < 0 || std::size_t(count) > devices.size())
    refuse(text("num_gpus from 0 to ", devices.size()), text(count, "; there is ", what_is_there()));
  if (count == 0) return {Device()};
  devices.resize(std::size_t(count));
  return devices;
}

std::vector<Device> chosen_devices(const TrainerOptions& options) {
  if (options.num_gpus && !options.devices.empty()) refuse("num_gpus or devices", "both");
  if (!options.parallel.device_ids.empty()) refuse("the devices in .devices or .num_gpus", ".parallel.device_ids");
  if (options.num_gpus) return first_gpus(*options.num_gpus);
  if (options.devices.empty()) return try_all_gpus();
  for (auto device = options.devices.begin(); device != options.devices.end(); ++device) {
    if (is_lost(*device)) expect_visible("trainer", *device);
    if (device->is_cuda() && try_gpu(device->index()) != *device)
      refuse(text("existing devices (", what_is_there(), ')'), device->name());
    if (device->is_cpu() && options.devices.size() > 1) refuse("the CPU alone or GPUs", "the CPU among others");
    if (std::find(options.devices.begin(), device, *device) != device)
      refuse("each device once", text(*device, " twice"));
  }
  return options.devices;
}

void check(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) refuse(text(name, " of at least ", least), text(value));
}

void check(const TrainerOptions& options) {
  check("max_epochs", options.max_epochs, 0);
  check("accumulate", options.accumulate, 1);
  check("log_every", options.log_every, 0);
  check("checkpoint.every_steps", options.checkpoint.every_steps, 0);
  check("checkpoint.every_epochs", options.checkpoint.every_epochs, 0);
  check("checkpoint.keep", options.checkpoint.keep, 0);
  if (options.on_lost_device == OnLostDevice::resume && options.checkpoint.folder.empty())
    refuse("checkpoint.folder with on_lost_device = resume", "none");
  if (options.on_lost_device == OnLostDevice::resume && options.parallel.world.size() > 1)
    refuse("on_lost_device = stop with several processes (start the job again to resume)",
           text("resume with ", options.parallel.world.size(), " processes"));
  if (!(options.gradient_clip_val >= 0)) refuse("gradient_clip_val of at least 0", text(options.gradient_clip_val));
}

}  // namespace

std::vector<ReportSetting> settings_of(const TrainerOptions& options) {
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  std::string devices;
  for (const Device& device : options.devices) devices += text(devices.empty() ? "" : ", ", device);
  if (options.devices.empty()) devices = options.num_gpus ? text(*options.num_gpus, " GPUs") : "all GPUs, else the CPU";
  constexpr std::array kPrecisions = {"float32", "bfloat16", "float16"};
  return {
      {"max_epochs", text(options.max_epochs)},
      {"devices", devices},
      {"processes", text(options.parallel.world.size())},
      {"precision", kPrecisions[std::size_t(options.precision)]},
      {"accumulate", text(options.accumulate)},
      {"gradient_clip_val", options.gradient_clip_val == 0 ? "none" : text(options.gradient_clip_val)},
      {"gradient_clip_algorithm", options.gradient_clip_algorithm == GradientClip::norm ? "norm" : "value"},
      {"log_every", text(options.log_every)},
      {"stop_if_not_finite", yes(options.stop_if_not_finite)},
      {"checkpoint.folder", options.checkpoint.folder.empty() ? "none" : options.checkpoint.folder.string()},
      {"checkpoint.resume", yes(options.checkpoint.resume)},
  };
}

namespace detail {

void throw_no_loss() { refuse("a loss", "none"); }
void throw_null_reference() { refuse("an optimizer", "a null pointer"); }

void check_loss(const Tensor& loss) {
  if (!loss.defined()) refuse("a loss", "an undefined tensor");
  if (loss.numel() != 1)
    throw ShapeError(text("[trainer] expected a loss of one element, got shape ", loss.sizes(),
                          ": take the mean, or gather losses of replicas with .parallel = {.gather = Gather::mean}"));
}

std::vector<std::int64_t> rows_of_all(const World& world, const std::vector<std::int64_t>& mine) {
  if (world.size() == 1) return mine;
  const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof mine[0]);
  const auto is_other = [&](const std::string& part) { return part.size() != bytes.size(); };
  const std::vector<std::string> of_each =
      world.agree(bytes, "rows of the batches of a step", [&](const std::vector<std::string>& parts) {
        if (std::ranges::any_of(parts, is_other))
          refuse("equally many batches in an epoch of each process", "different numbers");
      });
  std::vector<std::int64_t> all(mine.size());
  for (const std::string& part : of_each) {
    std::vector<std::int64_t> rows(mine.size());
    std::memcpy(rows.data(), part.data(), part.size());
    for (std::size_t i = 0; i < rows.size(); ++i) all[i] += rows[i];
  }
  return all;
}

void refuse_second_loss(const std::string& name) {
  throw InvalidArgument(text("[trainer] the loss function added a metric named \"", name,
                             "\", which is the name of the loss that it returns. Give the metric another name"));
}
void refuse_changed_batch() {
  throw InvalidArgument(
      "[trainer] a batch was changed in place before its step, which uses .accumulate batches at once. The loader must "
      "make new tensors for each batch");
}

}  // namespace detail

Diverged::Diverged(double mean, std::int64_t after, std::int64_t until)
    : Error(text("[trainer] expected a finite loss, got a mean of ", mean, " over steps ", after + 1, " to ", until)),
      loss(mean),
      after_step(after),
      until_step(until) {}

Trainer::Trainer(TrainerOptions options) : options_(std::move(options)) {
  check(options_);
  devices_ = chosen_devices(options_);
  if (options_.parallel.world.size() > 1 && devices_.front().is_cpu() && !visible_gpus().empty())
    refuse("GPUs with several processes, since this machine has GPUs", "the CPU");
}

}  // namespace lockstep::train
