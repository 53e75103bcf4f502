#include "runtime/trace/trace_json.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <locale>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/core/error.h>

#include "core/json_string.h"
#include "core/text.h"

namespace lockstep {
namespace {

// Whole nanoseconds. Rounding is monotonic, so if one event ends before another begins, this is also true in the file.
// (Viewers need slices that do not cross.)
std::int64_t nanoseconds(double us) { return std::llround(us * 1e3); }

// Formats nanoseconds as microseconds, independent of the stream's format.
std::string micros(std::int64_t ns) {
  std::string digits = std::to_string(ns % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  return text(ns / 1000, '.', digits);
}

std::string whole(double value) {
  std::array<char, 400> digits;  // the largest double has 309 digits
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed, 0).ptr};
}

// PyTorch's profiler's name of a dtype.
const char* name_of_dtype(DType dtype) {
  switch (dtype) {
    case kBool: return "Bool";
    case kUInt8: return "Byte";
    case kInt32: return "Int";
    case kInt64: return "Long";
    case kFloat16: return "Half";
    case kBFloat16: return "BFloat16";
    case kFloat32: return "Float";
    default: return "Double";
  }
}

// The dtype in the names of NCCL's kernels.
const char* name_in_kernel(DType dtype) {
  switch (dtype) {
    case kBool:
    case kUInt8: return "u8";
    case kInt32: return "i32";
    case kInt64: return "i64";
    case kFloat16: return "f16";
    case kBFloat16: return "bf16";
    case kFloat32: return "f32";
    default: return "f64";
  }
}

const char* name_in_kernel(ReduceOp op) {
  constexpr std::array kNames = {"Sum", "SumPostDiv", "MinMax", "MinMax"};  // a mean is a sum and a division
  return kNames[std::size_t(op)];
}

struct CollectiveNames {
  std::string_view own, kernel, profiler;
  bool reduces;
};
constexpr std::array kCollectives = {
    CollectiveNames{"all_reduce", "AllReduce", "allreduce", true},
    CollectiveNames{"reduce", "Reduce", "reduce", true},
    CollectiveNames{"broadcast", "Broadcast", "broadcast", false},
    CollectiveNames{"reduce_scatter", "ReduceScatter", "_reduce_scatter_base", true},
    CollectiveNames{"all_gather", "AllGather", "_allgather_base", false},
    CollectiveNames{"send_receive", "SendRecv", "all_to_allv", false},
    CollectiveNames{"barrier", "Barrier", "barrier", false},
};

CollectiveNames names_of(const TraceEvent& event) {
  const auto* const found = std::ranges::find(kCollectives, event.name, &CollectiveNames::own);
  return found == kCollectives.end() ? CollectiveNames{event.name, event.name, event.name, false} : *found;
}

std::string kernel_name(const TraceEvent& event) {
  const CollectiveNames names = names_of(event);
  if (!names.reduces) return text("ncclDevKernel_", names.kernel);
  return text("ncclDevKernel_", names.kernel, '_', name_in_kernel(event.collective->op), '_',
              name_in_kernel(event.collective->dtype));
}

// An operation's name in PyTorch's profiler, its category there, and the CUDA call that enqueues it.
struct Naming {
  std::string name;
  const char* category;
  const char* call;
};

Naming naming_of(const TraceEvent& event) {
  if (event.device.is_cpu()) return {event.name, "cpu_op", ""};
  switch (event.kind) {
    case TraceKind::kernel: break;
    case TraceKind::copy_from_host: return {"Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", "cudaMemcpyAsync"};
    case TraceKind::copy_from_pinned: return {"Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", "cudaMemcpyAsync"};
    case TraceKind::copy_to_host: return {"Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", "cudaMemcpyAsync"};
    case TraceKind::copy_within: return {"Memcpy DtoD (Device -> Device)", "gpu_memcpy", "cudaMemcpyAsync"};
    case TraceKind::copy_between: return {"Memcpy PtoP (Device -> Device)", "gpu_memcpy", "cudaMemcpyAsync"};
    case TraceKind::fill: return {"Memset (Device)", "gpu_memset", "cudaMemsetAsync"};
    case TraceKind::collective: return {kernel_name(event), "kernel", "cudaLaunchKernel"};
  }
  return {event.name, "kernel", "cudaLaunchKernel"};
}

class Writer {
 public:
  Writer(std::ostream& out, const std::vector<TraceEvent>& events) : out_(out), events_(events) {
    for (const TraceEvent& event : events)
      if (event.device.is_cuda()) devices_.insert(event.device);
  }

  void write(std::optional<Device> only, std::size_t dropped) {
    if (only) devices_ = {*only};
    out_ << "{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"recordShapes\": 0,\n\"lockstepDropped\": "
         << dropped << ",\n\"deviceProperties\": [";
    const char* separator = "\n";
    for (const Device& device : devices_) write_properties(device, separator);
    out_ << "\n],\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": " << (only ? rank_of(*only) : 0)
         << ", \"world_size\": " << ranks() << "},\n\"traceEvents\": [";
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (events_[i].device.is_cpu() || devices_.contains(events_[i].device)) write(events_[i], i + 1);
    write_names();
    out_ << "\n]}\n";
  }

 private:
  void begin_item() { out_ << std::exchange(separator_, ",\n"); }

  void write_properties(const Device& device, const char*& separator) {
    std::string name = "GPU";
    std::size_t bytes = 0;
    try {
      const DeviceProperties found = properties(device);
      name = found.name, bytes = found.memory_bytes;
    } catch (const Error&) {  // its simulation has ended
    }
    out_ << std::exchange(separator, ",\n") << "{\"id\": " << device.index() << ", \"name\": " << json_string(name)
         << ", \"totalGlobalMem\": " << bytes << '}';
  }

  // Returns the device's rank in its last collective: with several processes, ranks are not the device numbers.
  int rank_of(const Device& device) const {
    int rank = device.index();
    for (const TraceEvent& event : events_)
      if (event.device == device && event.collective) rank = event.collective->rank;
    return rank;
  }
  std::size_t ranks() const {
    std::size_t ranks = 1;
    for (const TraceEvent& event : events_) {
      ranks = std::max(ranks, std::size_t(event.device.index()) + 1);
      if (event.collective) ranks = std::max(ranks, std::size_t(event.collective->ranks));
    }
    return ranks;
  }

  void write(const TraceEvent& event, std::size_t correlation) {
    const Naming naming = naming_of(event);
    const bool is_cpu = event.device.is_cpu();
    slice(naming.category, naming.name, is_cpu ? host_ : event.device.index(), event.stream, event.start_us,
          event.end_us);
    tracks_.insert({is_cpu ? host_ : event.device.index(), event.stream});
    out_ << "\"External id\": " << correlation;
    if (!is_cpu)
      out_ << ", \"device\": " << event.device.index() << ", \"context\": 1, \"stream\": " << event.stream
           << ", \"correlation\": " << correlation;
    if (event.flops > 0) out_ << ", \"flops\": " << whole(event.flops);
    if (event.bytes > 0) {
      out_ << ", \"bytes\": " << event.bytes;
      const double us = event.end_us - event.start_us;
      if (us > 0) out_ << ", \"memory bandwidth (GB/s)\": " << micros(nanoseconds(double(event.bytes) / us / 1e3));
    }
    if (event.collective) write_collective(event);
    out_ << "}}";
    if (!is_cpu && event.host_thread != 0) write_call(event, naming.call, correlation);
  }

  // Writes the arguments that PyTorch records for a collective (ParamCommsUtils.hpp).
  void write_collective(const TraceEvent& event) {
    const TraceCollective& collective = *event.collective;
    out_ << ", \"Collective name\": " << json_string(names_of(event).profiler)
         << ", \"In msg nelems\": " << collective.elements_in << ", \"Out msg nelems\": " << collective.elements_out
         << ", \"dtype\": \"" << name_of_dtype(collective.dtype) << "\", \"Group size\": " << collective.ranks
         << ", \"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\", \"Rank\": "
         << collective.rank;
  }

  // Writes the host's call, and an arrow from it to the operation.
  void write_call(const TraceEvent& event, const char* call, std::size_t correlation) {
    slice("cuda_runtime", call, host_, event.host_thread, event.enqueue_start_us, event.enqueue_end_us);
    tracks_.insert({host_, event.host_thread});
    out_ << "\"External id\": " << correlation << ", \"correlation\": " << correlation << "}}";
    flow("\"s\"", correlation, host_, event.host_thread, event.enqueue_start_us);
    flow("\"f\", \"bp\": \"e\"", correlation, event.device.index(), event.stream, event.start_us);
  }

  // Writes one operation up to its arguments. The caller appends the arguments and "}}".
  void slice(const char* category, const std::string& name, int process, int thread, double start_us, double end_us) {
    const std::int64_t begin = nanoseconds(start_us);
    begin_item();
    out_ << R"({"ph": "X", "cat": ")" << category << R"(", "name": )" << json_string(name) << R"(, "pid": )" << process
         << R"(, "tid": )" << thread << R"(, "ts": )" << micros(begin) << R"(, "dur": )"
         << micros(std::max<std::int64_t>(0, nanoseconds(end_us) - begin)) << R"(, "args": {)";
  }
  void flow(const char* phase, std::size_t id, int process, int thread, double at_us) {
    begin_item();
    out_ << R"({"ph": )" << phase << R"(, "id": )" << id << R"(, "pid": )" << process << R"(, "tid": )" << thread
         << R"(, "ts": )" << micros(nanoseconds(at_us)) << R"(, "cat": "ac2g", "name": "ac2g"})";
  }

  void name(const char* what, int process, int thread, const std::string& arguments) {
    begin_item();
    out_ << R"({"ph": "M", "name": ")" << what << R"(", "ts": 0, "pid": )" << process << R"(, "tid": )" << thread
         << R"(, "args": {)" << arguments << "}}";
  }
  void write_names() {
    name("process_name", host_, 0, R"("name": "host")");
    name("process_sort_index", host_, 0, R"("sort_index": 0)");
    for (const Device& device : devices_) {
      name("process_name", device.index(), 0, text("\"name\": \"", device, '"'));
      name("process_labels", device.index(), 0, text("\"labels\": \"GPU ", device.index(), '"'));
      name("process_sort_index", device.index(), 0, text("\"sort_index\": ", 1 + device.index()));
    }
    for (const auto& [process, thread] : tracks_)
      name("thread_name", process, thread, text("\"name\": \"", process == host_ ? "thread " : "stream ", thread, '"'));
  }

  std::ostream& out_;
  const std::vector<TraceEvent>& events_;
  std::set<Device> devices_;
  std::set<std::pair<int, int>> tracks_;
  const int host_ = 1000 + int(::getpid());  // differs from the number of every device
  const char* separator_ = "\n";
};

}  // namespace

void write_trace_json(std::ostream& out, const std::vector<TraceEvent>& events, std::optional<Device> only,
                      std::size_t dropped) {
  const std::locale outer = out.imbue(std::locale::classic());  // JSON's number format
  Writer(out, events).write(only, dropped);
  out.imbue(outer);
}

}  // namespace lockstep
