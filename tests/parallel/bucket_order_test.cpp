// Buckets are reduced in one order, however their gradients come.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/runtime/trace.h>

#include "parallel/job.h"

namespace lockstep {
namespace {

// Runs its layers in the other order than it names them: backward comes to `a` first.
struct Crosswise : nn::Module<Crosswise> {
  nn::Linear a{64, 64, {.bias = false}}, b{64, 64, {.bias = false}};
  auto members() { return nn::members("a", a, "b", b); }
  Tensor forward(const Tensor& x) { return a(b(x)); }
};

// One bucket for each weight: b's, then a's, as the names say. In the first backward a's is complete long before b's.
TEST(BucketOrder, IsTheLayoutsAndNotThatOfArrivals) {
  SimulatedDevices devices({.count = 2});
  DataParallel model(Crosswise(), {.buckets = {.first_bytes = 1, .bytes = 1}});
  const Tensor input = randn({32, 64}, {.device = "cuda:0"});
  const auto collectives_before_the_last_product = [&] {
    const Trace trace;
    sum(model(input)).backward();
    for (const Device& device : try_all_gpus()) synchronize(device);
    double last_product = 0;
    for (const TraceEvent& event : trace.events())
      if (event.name == "matmul" && event.device == Device("cuda:0"))
        last_product = std::max(last_product, event.end_us);
    std::size_t before = 0;
    for (const TraceEvent& event : trace.events())
      before += event.name == "all_reduce" && event.device == Device("cuda:0") && event.start_us < last_product;
    return before;
  };
  EXPECT_EQ(collectives_before_the_last_product(), 0u);  // b's gradient comes last, and a's bucket waits for b's
  EXPECT_EQ(collectives_before_the_last_product(), 1u);  // laid out in backward's order: a's overlaps
}

}  // namespace
}  // namespace lockstep
