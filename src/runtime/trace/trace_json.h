// Traces as JSON: Chrome's "Trace Event Format", with the categories, names and arguments of PyTorch's profiler
// (libkineto's output_json.cpp), which Holistic Trace Analysis relies on.
#pragma once

#include <lockstep/runtime/trace.h>

#include <iosfwd>
#include <optional>
#include <vector>

namespace lockstep {

/// `only`: write only this GPU's events, and the host's.
void write_trace_json(std::ostream& out, const std::vector<TraceEvent>& events, std::optional<Device> only = {},
                      std::size_t dropped = 0);

}  // namespace lockstep
