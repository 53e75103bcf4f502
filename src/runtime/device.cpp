#include <lockstep/runtime/device.h>

#include <charconv>
#include <ostream>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "runtime/registry.h"

namespace lockstep {
namespace {

constexpr int kMaxDevices = 64;

}  // namespace

Device::Device(std::string_view name) {
  if (name == "cpu") return;
  const std::string_view kind = name.substr(0, 4);
  int index = name.size() == 4 ? 0 : -1;
  if (name.size() > 5 && name[4] == ':') {
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + 5, end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end) index = -1;
  }
  if (kind != "cuda" || index < 0 || index >= kMaxDevices)
    throw InvalidArgument(text("[Device] expected \"cpu\", \"cuda\" or \"cuda:N\", got \"", name, "\""));
  *this = cuda(index);
}

Device::Device(const char* name) : Device(name ? std::string_view(name) : std::string_view()) {}

Device::Device(DeviceType type, int index) {
  if (type == DeviceType::cuda) *this = cuda(index);
  if (type == DeviceType::cpu && index != 0)
    throw InvalidArgument(text("[Device] expected no index for the CPU, or 0, got ", index));
}

Device Device::cuda(int index) {
  if (index < 0 || index >= kMaxDevices)
    throw InvalidArgument(text("[Device] expected an index in [0, ", kMaxDevices - 1, "], got ", index));
  Device device;
  device.type_ = DeviceType::cuda;
  device.index_ = std::int8_t(index);
  return device;
}

std::string Device::name() const { return is_cpu() ? "cpu" : text("cuda:", int(index_)); }

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.name(); }

DeviceProperties properties(Device device) { return device_state(device).backend.properties(device.index()); }

int cuda::device_count() { return int(visible_gpus().size()); }
bool cuda::is_available() { return !visible_gpus().empty(); }

Device try_gpu(int index) {
  for (const Device& device : visible_gpus())
    if (device.index() == index) return device;
  return {};
}

std::vector<Device> try_all_gpus() {
  std::vector<Device> devices = visible_gpus();
  if (devices.empty()) devices.push_back(Device());
  return devices;
}

}  // namespace lockstep
