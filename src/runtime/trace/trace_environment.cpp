// LOCKSTEP_TRACE: traces a whole process without a change of its code.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include <lockstep/core/error.h>

#include "core/text.h"
#include "runtime/trace/trace_json.h"
#include "runtime/trace/trace_recorder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRecords = 1'000'000;  // about 200 MB in memory, 300 MB as a file

// Returns this process's rank, as set by the launcher; empty for a single process.
std::string rank_of_launcher() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* const rank = std::getenv(variable)) return rank;
  return "";
}

// Where the trace is written: to one file, or to a folder with one file per GPU.
struct Destination {
  fs::path path;
  bool is_folder = false;
  pid_t owner = 0;  // a forked process writes nothing
};

Destination destination_of(const char* variable) {
  Destination to = {variable, fs::path(variable).filename().empty(), ::getpid()};
  if (const std::string rank = rank_of_launcher(); !rank.empty() && !to.is_folder)
    to.path.replace_filename(text(to.path.stem().string(), ".process", rank, to.path.extension().string()));
  return to;
}

// Throws InvalidArgument if the destination cannot be written, so that the error comes before a long run, not after it.
void expect_writable(const Destination& to) {
  std::error_code error;
  if (to.is_folder) {
    fs::create_directories(to.path, error);
    if (fs::is_directory(to.path)) return;
  } else if (std::ofstream(to.path, std::ios::app)) {
    return;
  }
  throw InvalidArgument(text("[LOCKSTEP_TRACE] expected a ", to.is_folder ? "folder" : "file",
                             " that can be written, got ", to.path.string()));
}

template <class Write>
void write_file(const fs::path& path, const Write& write) {
  std::ofstream out(path, std::ios::trunc);
  write(out);
  out.close();
  if (!out) std::cerr << text("[LOCKSTEP_TRACE] cannot write ", path.string(), " (disk full?): the trace is lost\n");
}

void write(const Destination& to, const Trace::State& state) {
  const std::vector<TraceEvent> events = state.events();
  const std::size_t dropped = state.dropped_so_far();
  if (dropped > 0)
    std::cerr << text("[LOCKSTEP_TRACE] the first ", events.size(), " operations are in the trace, ", dropped,
                      " later ones are not\n");
  if (!to.is_folder) return write_file(to.path, [&](std::ostream& out) { write_trace_json(out, events, {}, dropped); });
  std::set<Device> gpus;
  for (const TraceEvent& event : events)
    if (event.device.is_cuda()) gpus.insert(event.device);
  for (const Device& gpu : gpus) {
    int rank = gpu.index();
    for (const TraceEvent& event : events)
      if (event.device == gpu && event.collective) rank = event.collective->rank;
    write_file(to.path / text("rank", rank, ".json"),
               [&](std::ostream& out) { write_trace_json(out, events, gpu, dropped); });
  }
}

struct TraceOfEnvironment {
  Destination to;
  std::shared_ptr<Trace::State> state = std::make_shared<Trace::State>();
};
TraceOfEnvironment* trace_of_environment = nullptr;  // never destroyed, because threads may still end work

void finish_trace_of_environment() noexcept {
  set_recording_state(TraceOwner::environment, nullptr);
  if (::getpid() != trace_of_environment->to.owner) return;
  try {
    write(trace_of_environment->to, *trace_of_environment->state);
  } catch (const std::exception& error) {
    std::cerr << text("[LOCKSTEP_TRACE] the trace is lost: ", error.what(), '\n');
  }
}

}  // namespace

void begin_trace_of_environment() {
  const char* const variable = std::getenv("LOCKSTEP_TRACE");
  if (!variable || !*variable) return;
  Destination to = destination_of(variable);
  expect_writable(to);
  trace_of_environment = new TraceOfEnvironment{std::move(to)};
  trace_of_environment->state->most = kMaxRecords;
  set_recording_state(TraceOwner::environment, trace_of_environment->state);
  std::atexit(finish_trace_of_environment);
}

}  // namespace lockstep
