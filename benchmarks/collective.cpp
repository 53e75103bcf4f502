// Compares collectives of simulated devices with plain copies of equally many bytes, alternately.
//   collective CASE       CASE: all_reduce all_gather reduce_scatter small
// BENCH_THREADS bounds the cores. "peer_us" is the time in which every device copies as many bytes as its share of the
// collective's traffic: an in-place all-reduce reads and writes each rank's bytes once, like a copy of them.
#include <lockstep/lockstep.h>
#include <lockstep/parallel/collectives.h>
#include <sched.h>

#include <functional>
#include <string>
#include <vector>

#include "compare.h"
#include "harness.h"

using namespace lockstep;

namespace {

void bound_cores(int cores) {
  cpu_set_t allowed, chosen;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  CPU_ZERO(&chosen);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&chosen) < cores; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &chosen);
  sched_setaffinity(0, sizeof(chosen), &chosen);
}

/// N devices, each with a tensor and a destination to copy it to.
class Job {
 public:
  Job(int ranks, std::int64_t elements, DType dtype = kFloat32)
      : devices_({.count = ranks, .memory_bytes = std::size_t(8) << 30, .poison = false}),
        communicator(try_all_gpus()) {
    for (const Device device : communicator.devices()) {
      tensors.push_back(zeros({elements}, {.dtype = dtype, .device = device}));
      copies.push_back(zeros({elements}, {.dtype = dtype, .device = device}));
    }
    synchronize();
  }

  void synchronize() const {
    for (const Device device : communicator.devices()) lockstep::synchronize(device);
  }
  /// Every device copies the fraction `part` of its tensor.
  void copy(double part) const {
    const auto elements = std::int64_t(double(tensors[0].numel()) * part);
    for (std::size_t rank = 0; rank < tensors.size(); ++rank)
      copies[rank].narrow(0, 0, elements).copy_(tensors[rank].narrow(0, 0, elements));
    synchronize();
  }

 private:
  SimulatedDevices devices_;

 public:
  Communicator communicator;
  std::vector<Tensor> tensors, copies;
};

/// Compares the collective with a copy of the fraction `part` of every device's tensor.
void compare(const std::string& name, Job& job, double part, const std::function<void()>& collective) {
  bench::compare(
      name,
      [&] {
        collective();
        job.synchronize();
      },
      [&] { job.copy(part); });
}

std::vector<Tensor> shares(const std::vector<Tensor>& wholes, bool of_each) {
  std::vector<Tensor> result;
  const auto ranks = std::int64_t(wholes.size()), share = wholes[0].numel() / ranks;
  for (std::int64_t r = 0; r < ranks; ++r)
    result.push_back(wholes[std::size_t(r)].narrow(0, of_each ? r * share : 0, share));
  return result;
}

constexpr std::int64_t kElements = 16 << 20;

void all_reduce() {
  for (const int ranks : {2, 4, 8}) {
    Job job(ranks, kElements);
    compare("collective/all_reduce/float32/" + std::to_string(ranks), job, 1,
            [&] { collective::all_reduce(job.communicator, job.tensors); });
  }
  Job job(2, kElements, kBFloat16);
  compare("collective/all_reduce/bfloat16/2", job, 1, [&] { collective::all_reduce(job.communicator, job.tensors); });
}

// In place: every rank reads its tensor once, and writes one of its N shards.
void reduce_scatter() {
  for (const int ranks : {2, 4}) {
    Job job(ranks, kElements);
    const std::vector<Tensor> outputs = shares(job.tensors, true);
    compare("collective/reduce_scatter/float32/" + std::to_string(ranks), job, (1 + 1.0 / ranks) / 2,
            [&] { collective::reduce_scatter(job.communicator, job.tensors, outputs); });
  }
}

// In place: every rank's shard is read once, and written to the N - 1 other ranks.
void all_gather() {
  for (const int ranks : {2, 4}) {
    Job job(ranks, kElements);
    const std::vector<Tensor> inputs = shares(job.tensors, true);
    compare("collective/all_gather/float32/" + std::to_string(ranks), job, 0.5,
            [&] { collective::all_gather(job.communicator, inputs, job.tensors); });
  }
}

// The fixed cost of a collective, without much data.
void small() {
  for (const int ranks : {2, 4, 8}) {
    Job job(ranks, 256);
    bench::run("collective/small/" + std::to_string(ranks), [&] {
      collective::all_reduce(job.communicator, job.tensors);
      job.synchronize();
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  bound_cores(int(bench::from_environment("BENCH_THREADS", 2)));
  return bench::run_case(
      argc, argv,
      {{"all_reduce", all_reduce}, {"reduce_scatter", reduce_scatter}, {"all_gather", all_gather}, {"small", small}});
}
