// Traces as JSON: the "Trace Event Format" of Chrome, with the categories, names and arguments of PyTorch's profiler
// (libkineto's output_json.cpp), which Holistic Trace Analysis goes by.
#pragma once

#include <lockstep/runtime/trace.h>

#include <iosfwd>
#include <optional>
#include <vector>

namespace lockstep {

/// `only`: the one GPU whose events are written, and the host's.
void write_trace_json(std::ostream& out, const std::vector<TraceEvent>& events, std::optional<Device> only = {},
                      std::size_t dropped = 0);

}  // namespace lockstep
