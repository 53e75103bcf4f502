#include <lockstep/parallel/data_parallel.h>

#include <algorithm>

#include "core/text.h"
#include "runtime/registry.h"

namespace lockstep::detail {
namespace {

struct Survey final : nn::Visitor {
  bool any_off_cpu = false;
  void module(const nn::Path& path, nn::ModuleBase& module) override {
    if (dynamic_cast<DataParallelMark*>(&module))
      throw InvalidArgument(
          text("[DataParallel] expected a module without DataParallel inside, got one at \"", path.str(), "\""));
  }
  void parameter(const nn::Path&, nn::Parameter& value) override { look(value); }
  void buffer(const nn::Path&, nn::Buffer& value) override { look(value); }
  void look(const Tensor& value) { any_off_cpu = any_off_cpu || (value.defined() && !value.device().is_cpu()); }
};

}  // namespace

std::vector<Device> resolve_devices(const std::vector<int>& device_ids) {
  if (device_ids.empty()) return try_all_gpus();
  std::vector<Device> devices;
  for (const int id : device_ids) {
    const Device device = Device::cuda(id);
    expect_visible("DataParallel", device);
    if (std::find(devices.begin(), devices.end(), device) != devices.end())
      throw InvalidArgument(text("[DataParallel] expected each device once, got ", device, " twice"));
    devices.push_back(device);
  }
  return devices;
}

void adopt(nn::ModuleBase& module, Device device) {
  Survey survey;
  module.visit(nn::Path(), survey);
  if (!survey.any_off_cpu) module.to(device);
  ReplicaSync::check_placement(module, device);
}

void check_output_device(Device device) {
  if (is_lost(device)) expect_visible("DataParallel", device);
  if (device.is_cuda() && try_gpu(device.index()) != device)
    throw InvalidArgument(text("[DataParallel] expected output_device to be the CPU or one of ", cuda::device_count(),
                               " visible GPUs, got ", device));
}

void refuse_nesting() {
  if (inside_replica())
    throw InvalidArgument("[DataParallel] expected to be called outside of replicas, got a call from inside one");
}

}  // namespace lockstep::detail
