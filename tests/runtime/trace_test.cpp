// Traces on disk.
#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace lockstep {
namespace {

// The number after `key`.
double number_after(const std::string& key, const std::string& text) {
  return std::stod(text.substr(text.find(key) + key.size()));
}

TEST(Trace, WritesTimesToTheNanosecondWhateverTheStreamsFormat) {
  const Trace trace;
  { const TraceSpan span("work", 0, 3); }
  ASSERT_EQ(trace.events().size(), 1u);
  const TraceEvent event = trace.events()[0];
  std::ostringstream out;
  out.precision(1);
  trace.write_json(out);
  EXPECT_NEAR(number_after("\"ts\": ", out.str()), event.start_us, 0.0006);
  EXPECT_NEAR(number_after("\"dur\": ", out.str()), event.end_us - event.start_us, 0.0006);
  EXPECT_EQ(number_after("\"tid\": ", out.str()), 3);
}

}  // namespace
}  // namespace lockstep
