// The contents of traces, in memory and as JSON.
#include "runtime/trace/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/simulation.h>

#include "runtime/registry.h"
#include "support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::contents;
using testing::TemporaryFolder;

Json json_of(const Trace& trace) {
  std::ostringstream out;
  out.precision(1);
  trace.write_json(out);
  return Json::parse(out.str());
}

std::vector<Json> of_category(const Json& trace, const std::string& category) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"])
    if (event.value("cat", "") == category) found.push_back(event);
  return found;
}

// Two simulated GPUs that execute one operation of every kind.
class Work : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1024;

  void do_everything() {
    std::array<float, kBytes / 4> host = {};
    for (int d = 0; d < 2; ++d) {
      memory_[std::size_t(d)] = backend().allocate(d, kBytes);
      backend().copy(stream(d), {.to = memory(d), .from = host.data(), .to_device = d, .row_bytes = kBytes});
    }
    const MemoryAccess access = {{memory(0), kBytes}, AccessKind::write};
    backend().launch(stream(0), {"my \"kernel\"\n", 1234, {&access, 1}}, [](const KernelContext&) {});
    backend().matmul(stream(0), {.m = 2,
                                 .n = 3,
                                 .k = 4,
                                 .a = memory(0),
                                 .b = memory(0) + 64,
                                 .c = memory(0) + 512,
                                 .lda = 4,
                                 .ldb = 3,
                                 .ldc = 3});
    backend().copy(stream(0),
                   {.to = memory(0) + 512, .from = memory(0), .to_device = 0, .from_device = 0, .row_bytes = 64});
    Communicator communicator({Device::cuda(0), Device::cuda(1)});
    const std::array<RankBuffers, 2> ranks = {RankBuffers{current_stream(Device::cuda(0)), memory(0), memory(0)},
                                              RankBuffers{current_stream(Device::cuda(1)), memory(1), memory(1)}};
    communicator.all_reduce(ranks, 100, kFloat32);
    communicator.reduce(ranks, 10, kFloat32, 1);
    communicator.broadcast(ranks, 7, kFloat64, 0);
    backend().synchronize_stream(stream(1));
    backend().copy(stream(0), {.to = memory(1), .from = memory(0), .to_device = 1, .from_device = 0, .row_bytes = 64});
    backend().copy(stream(0), {.to = host.data(), .from = memory(0), .from_device = 0, .row_bytes = 128});
    for (int d = 0; d < 2; ++d) {
      backend().synchronize_stream(stream(d));
      backend().deallocate(d, memory(d), kBytes);
    }
  }

  StreamHandle stream(int device) { return device_state(Device::cuda(device)).stream(0); }
  Backend& backend() { return device_state(Device::cuda(0)).backend; }
  std::byte* memory(int device) { return static_cast<std::byte*>(memory_[std::size_t(device)]); }

  const SimulatedDevices devices_{{.count = 2}};
  std::array<void*, 2> memory_ = {};
};

std::vector<TraceEvent> of_kind(const Trace& trace, TraceKind kind) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : trace.events())
    if (event.kind == kind) found.push_back(event);
  return found;
}

TEST_F(Work, TracesTheFlopsAndBytesOfLaunchesAndProducts) {
  const Trace trace;
  do_everything();
  const auto kernels = of_kind(trace, TraceKind::kernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].flops, 1234);
  EXPECT_EQ(kernels[0].bytes, kBytes);
  EXPECT_EQ(kernels[1].name, "matmul");
  EXPECT_EQ(kernels[1].flops, 2 * 2 * 3 * 4);
  EXPECT_EQ(kernels[1].bytes, sizeof(float) * (2 * 4 + 4 * 3 + 2 * 3));
}

TEST_F(Work, TracesTheBytesAndTheDirectionOfCopies) {
  const Trace trace;
  do_everything();
  const auto bytes = [&](TraceKind kind) {
    std::vector<std::size_t> each;
    for (const TraceEvent& event : of_kind(trace, kind)) each.push_back(event.bytes);
    return each;
  };
  EXPECT_EQ(bytes(TraceKind::copy_from_host), (std::vector<std::size_t>{kBytes, kBytes}));
  EXPECT_EQ(bytes(TraceKind::copy_within), (std::vector<std::size_t>{64}));
  EXPECT_EQ(bytes(TraceKind::copy_between), (std::vector<std::size_t>{64}));
  EXPECT_EQ(bytes(TraceKind::copy_to_host), (std::vector<std::size_t>{128}));
}

TEST_F(Work, TracesWhatEachRankOfACollectiveSendsAndReceives) {
  const Trace trace;
  do_everything();
  std::map<std::pair<std::string, int>, TraceCollective> found;
  for (const TraceEvent& event : of_kind(trace, TraceKind::collective)) {
    ASSERT_TRUE(event.collective);
    EXPECT_EQ(event.collective->rank, event.device.index());
    EXPECT_EQ(event.collective->ranks, 2);
    found[{event.name, event.collective->rank}] = *event.collective;
  }
  const auto elements = [&](const char* name, int rank) {
    const TraceCollective& collective = found.at({name, rank});
    return std::pair(collective.elements_in, collective.elements_out);
  };
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(elements("all_reduce", 0), Pair(100, 100));
  EXPECT_EQ(elements("reduce", 0), Pair(10, 0));
  EXPECT_EQ(elements("reduce", 1), Pair(10, 10));
  EXPECT_EQ(elements("broadcast", 0), Pair(7, 7));
  EXPECT_EQ(elements("broadcast", 1), Pair(0, 7));
}

TEST_F(Work, TracesCopiesOfPageLockedMemoryAsSuch) {
  const Trace trace;
  void* const there = backend().allocate(0, kBytes);
  void* const pinned = backend().allocate_pinned(kBytes);
  backend().copy(stream(0), {.to = there, .from = pinned, .to_device = 0, .row_bytes = 100, .pinned = true});
  backend().synchronize_stream(stream(0));
  backend().deallocate_pinned(pinned, kBytes);
  backend().deallocate(0, there, kBytes);
  const auto copies = of_kind(trace, TraceKind::copy_from_pinned);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].bytes, 100u);
  const auto written = of_category(json_of(trace), "gpu_memcpy");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0]["name"], "Memcpy HtoD (Pinned -> Device)");
}

TEST_F(Work, TracesTheCallThatEnqueuedAnOperationBeforeItRan) {
  const Trace trace;
  do_everything();
  std::thread([&] {
    backend().launch(stream(0), {"from a thread", 0, {}}, [](const KernelContext&) {});
    backend().synchronize_stream(stream(0));
  }).join();
  std::set<int> threads;
  for (const TraceEvent& event : trace.events()) {
    if (event.device.is_cpu()) continue;
    EXPECT_GE(event.host_thread, 1) << event.name;
    EXPECT_LE(event.enqueue_start_us, event.enqueue_end_us) << event.name;
    EXPECT_LE(event.enqueue_start_us, event.start_us) << event.name;
    EXPECT_LE(event.start_us, event.end_us) << event.name;
    threads.insert(event.host_thread);
  }
  EXPECT_EQ(threads.size(), 2u);
}

TEST_F(Work, IsWrittenUnderTheNamesOfPyTorchsProfiler) {
  const Trace trace;
  do_everything();
  const Json json = json_of(trace);
  std::multiset<std::string> kernels, copies;
  for (const Json& event : of_category(json, "kernel")) kernels.insert(event["name"].get<std::string>());
  for (const Json& event : of_category(json, "gpu_memcpy")) copies.insert(event["name"].get<std::string>());
  EXPECT_EQ(kernels, (std::multiset<std::string>{"my \"kernel\"\n", "matmul", "ncclDevKernel_AllReduce_Sum_f32",
                                                 "ncclDevKernel_AllReduce_Sum_f32", "ncclDevKernel_Reduce_Sum_f32",
                                                 "ncclDevKernel_Reduce_Sum_f32", "ncclDevKernel_Broadcast",
                                                 "ncclDevKernel_Broadcast"}));
  EXPECT_EQ(copies, (std::multiset<std::string>{"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)",
                                                "Memcpy DtoD (Device -> Device)", "Memcpy PtoP (Device -> Device)",
                                                "Memcpy DtoH (Device -> Pageable)"}));
  for (const Json& event : of_category(json, "kernel")) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_EQ(event["pid"], event["args"]["device"]);
    EXPECT_EQ(event["tid"], event["args"]["stream"]);
    if (event["name"] == "matmul") {
      EXPECT_EQ(event["args"]["flops"], 48);
    }
    if (event["name"] != "ncclDevKernel_AllReduce_Sum_f32") continue;
    EXPECT_EQ(event["args"]["Collective name"], "allreduce");
    EXPECT_EQ(event["args"]["In msg nelems"], 100);
    EXPECT_EQ(event["args"]["bytes"], 400);
    EXPECT_EQ(event["args"]["dtype"], "Float");
    EXPECT_EQ(event["args"]["Group size"], 2);
  }
}

// Each operation has one call and one arrow; the arrow begins where the call begins and ends where the operation
// begins.
TEST_F(Work, IsWrittenWithTheCallsThatItsCorrelationsLeadTo) {
  const Trace trace;
  do_everything();
  const Json json = json_of(trace);
  std::map<int, Json> calls, begins, ends;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "s") begins[event["id"]] = event;
    if (event["ph"] == "f") ends[event["id"]] = event;
    if (event.value("cat", "") == "cuda_runtime") calls[event["args"]["correlation"]] = event;
  }
  int operations = 0;
  for (const char* category : {"kernel", "gpu_memcpy", "gpu_memset"})
    for (const Json& event : of_category(json, category)) {
      const int correlation = event["args"]["correlation"];
      ++operations;
      ASSERT_TRUE(calls.contains(correlation)) << event;
      EXPECT_EQ(begins[correlation]["ts"], calls[correlation]["ts"]);
      EXPECT_EQ(begins[correlation]["tid"], calls[correlation]["tid"]);
      EXPECT_EQ(ends[correlation]["ts"], event["ts"]);
      EXPECT_EQ(ends[correlation]["pid"], event["pid"]);
    }
  EXPECT_EQ(calls.size(), std::size_t(operations));
}

// Perfetto does not show slices of a track that cross.
TEST_F(Work, IsWrittenAsSlicesThatFollowEachOtherOrLieInEachOther) {
  const Trace trace;
  do_everything();
  Backend& cpu = device_state(Device()).backend;
  for (int i = 0; i < 1000; ++i) cpu.launch({}, {"short", 0, {}}, [](const KernelContext&) {});
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;  // in nanoseconds
  const Json json = json_of(trace);
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::int64_t begin = std::llround(event["ts"].get<double>() * 1e3);
    tracks[{event["pid"], event["tid"]}].push_back({begin, begin + std::llround(event["dur"].get<double>() * 1e3)});
  }
  EXPECT_GE(tracks.size(), 3u);
  for (auto& [track, slices] : tracks) {
    std::ranges::sort(slices, {}, [](const auto& slice) { return std::pair(slice.first, -slice.second); });
    std::vector<std::int64_t> open;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      EXPECT_TRUE(open.empty() || end <= open.back()) << "on track " << track.first << ' ' << track.second;
      open.push_back(end);
    }
  }
}

TEST_F(Work, IsWrittenForOneRankAlone) {
  const Trace trace;
  do_everything();
  std::ostringstream out;
  trace.write_json(out, Device::cuda(1));
  const Json json = Json::parse(out.str());
  EXPECT_EQ(json["distributedInfo"]["rank"], 1);
  EXPECT_EQ(json["distributedInfo"]["world_size"], 2);
  for (const Json& event : of_category(json, "kernel")) EXPECT_EQ(event["args"]["device"], 1) << event;
  EXPECT_EQ(of_category(json, "kernel").size(), 3u);
  EXPECT_EQ(of_category(json_of(trace), "kernel").size(), 8u);
  EXPECT_THROW(trace.write_json(out, Device()), InvalidArgument);
}

TEST(Trace, HasWhatTheCpuRuns) {
  Backend& cpu = device_state(Device()).backend;
  const Trace trace;
  const std::array<MemoryAccess, 2> accesses = {MemoryAccess{{nullptr, 24, 3, 64}, AccessKind::read},
                                                MemoryAccess{{nullptr, 100, 1, 100}, AccessKind::write}};
  cpu.launch({}, {"on the cpu", 99, accesses}, [](const KernelContext&) {});
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_EQ(trace.events()[0].bytes, 24u * 3 + 100);
  EXPECT_EQ(trace.events()[0].name, "on the cpu");
  EXPECT_TRUE(trace.events()[0].device.is_cpu());
  const Json json = json_of(trace);
  const std::vector<Json> operations = of_category(json, "cpu_op");
  ASSERT_EQ(operations.size(), 1u);
  EXPECT_EQ(operations[0]["args"]["flops"], 99);
}

TEST(Trace, WritesTimesToTheNanosecondWhateverTheStreamsFormat) {
  const Trace trace;
  { const TraceSpan span("work", 0, 3); }
  ASSERT_EQ(trace.events().size(), 1u);
  const TraceEvent event = trace.events()[0];
  const Json json = json_of(trace);
  const Json written = of_category(json, "kernel").at(0);
  EXPECT_NEAR(written["ts"].get<double>(), event.start_us, 0.0006);
  EXPECT_NEAR(written["dur"].get<double>(), event.end_us - event.start_us, 0.0006);
  EXPECT_EQ(written["tid"], 3);
}

TEST(Trace, RefusesASecondOne) {
  const Trace trace;
  EXPECT_THROW(Trace(), InvalidArgument);
}

// A process of its own, with LOCKSTEP_TRACE and other variables in its environment.
class TraceOfEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    for (const char* variable : {"LOCKSTEP_TRACE", "OMPI_COMM_WORLD_RANK"}) ::unsetenv(variable);
  }

  // The death test's process runs the test from its beginning, and keeps the variables that it inherited.
  static void set(const char* variable, const char* value) { ::setenv(variable, value, 0); }

  // A program that does not know LOCKSTEP_TRACE, with a trace of its own, which does not interfere.
  static void program() {
    {
      const SimulatedDevices devices({.count = 2});
      const Trace own;
      for (int d = 0; d < 2; ++d) {
        DeviceState& state = device_state(Device::cuda(d));
        state.backend.launch(state.stream(0), {"work", 7, {}}, [](const KernelContext&) {});
      }
    }
    std::exit(0);
  }
  static int launches(const std::filesystem::path& path) {
    return int(of_category(Json::parse(contents(path)), "kernel").size());
  }

  const TemporaryFolder folder_;
};

TEST_F(TraceOfEnvironment, IsWrittenAtTheEndOfTheProcess) {
  set("LOCKSTEP_TRACE", (folder_ / "trace.json").c_str());
  EXPECT_EXIT(program(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(launches(folder_ / "trace.json"), 2);
}

TEST_F(TraceOfEnvironment, IsAFileForEachGpuInAFolder) {
  set("LOCKSTEP_TRACE", (folder_ / "new" / "").c_str());
  EXPECT_EXIT(program(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(launches(folder_ / "new" / "rank0.json"), 1);
  EXPECT_EQ(launches(folder_ / "new" / "rank1.json"), 1);
}

TEST_F(TraceOfEnvironment, IsAFileForEachProcessOfAJob) {
  set("LOCKSTEP_TRACE", (folder_ / "trace.json").c_str());
  set("OMPI_COMM_WORLD_RANK", "3");
  EXPECT_EXIT(program(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(launches(folder_ / "trace.process3.json"), 2);
}

TEST_F(TraceOfEnvironment, IsRefusedAtOnceWhereItCannotBeWritten) {
  set("LOCKSTEP_TRACE", (folder_ / "no folder" / "trace.json").c_str());
  const auto use = [] {
    try {
      device_state(Device());
    } catch (const InvalidArgument& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(1);
    }
  };
  EXPECT_EXIT(use(), ::testing::ExitedWithCode(1),
              "LOCKSTEP_TRACE. expected a file that can be written, got .*no folder");
}

}  // namespace
}  // namespace lockstep
