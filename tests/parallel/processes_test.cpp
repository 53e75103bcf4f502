// One job on several processes, simulated as threads: the model is that of one process with all the devices, bit for
// bit. tests/mpi has real processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>

#include <lockstep/autograd/autograd.h>
#include <lockstep/core/error.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/parallel/sync_batch_norm.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/trace.h>

#include "parallel/adversaries.h"
#include "parallel/blocking_model.h"
#include "parallel/mlp_job.h"
#include "support/in_processes.h"
#include "support/repetitions.h"
#include "support/thrown.h"
#include "tensor/tensor_impl.h"

namespace lockstep::processes {
namespace {

using namespace std::chrono_literals;
using testing::BlockingModel;
using testing::in_processes;

void expect_none(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& each : thrown) try {
      if (each) std::rethrow_exception(each);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
}

// Dropout, noise, batch statistics of all rows, branches that only some batches take, that only some devices take, and
// that none takes.
struct Net : nn::Module<Net> {
  nn::Linear first, last, sometimes, somewhere, never;
  nn::SyncBatchNorm norm;
  nn::Dropout drop;
  Net() : first(5, 8), last(8, 3), sometimes(8, 8), somewhere(8, 8), never(8, 8), norm(8), drop(0.3) {}
  auto members() {
    return nn::members("first", first, "last", last, "sometimes", sometimes, "somewhere", somewhere, "never", never,
                       "norm", norm, "drop", drop);
  }
  Tensor forward(const Tensor& x, bool branch) {
    Tensor h = drop(relu(norm(first(x))));
    if (branch) h = h + sometimes(h);
    if (x.size(0) > 0 && x.narrow(1, 0, 1).select(0, 0).item<float>() > 0) h = h + somewhere(h);
    h = h + randn({1, 8}, {.device = x.device()}) * 0.1;  // each device draws its own numbers
    return last(drop(h));
  }
};

struct Job {
  int processes, devices;
  bool sharded = false;
  bool adds_to_sums = true;  // in every other step, the second backward adds to gradients that were summed already
};

std::string bytes_of(nn::ModuleBase& module) {
  std::string all;
  for (const auto& [name, value] : module.state_dict()) {
    const Tensor host = value.to(Device()).contiguous();
    all += name;
    for (const double v : host.to(kFloat64).to_vector<double>())
      all.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  return all;
}

DeviceIds devices_of(const World& world, int each) {
  DeviceIds ids;
  for (int d = 0; d < each; ++d) ids.push_back(world.rank().value() * each + d);
  return ids;
}

// Steps of two batches, the second of which is smaller and does not divide evenly, with clipping. Returns each
// process's final state.
std::vector<std::string> train(const Job& job) {
  const SimulatedDevices devices({.count = job.processes * job.devices});
  std::vector<std::string> ends(std::size_t(job.processes));
  expect_none(in_processes(job.processes, [&](const World& world) {
    const Tensor drawn = randn({1 + world.rank().value()});  // so models differ; all get process 0's
    DataParallel model(Net(), {.device_ids = devices_of(world, job.devices),
                               .buckets = {.first_bytes = 256, .bytes = 512},
                               .shard = job.sharded ? Shard::optimizer_state : Shard::none,
                               .world = world,
                               .loss = ProcessLoss::sum});
    optim::Adam optimizer(model.parameters(), {.lr = 0.01});
    GeneratorState numbers = {.seed = 7};
    const GeneratorGuard guard(numbers);
    for (int step = 0; step < testing::repetitions(50); ++step) {
      optimizer.zero_grad();
      for (const std::int64_t rows : {16, 10}) {
        const auto [first, count] = model.share().rows(rows);
        const Tensor batch = randn({rows, 5}).narrow(0, first, count).to(model.device());
        std::optional<typename decltype(model)::NoSync> no_sync;
        if (rows == 16 && (step % 2 == 0 || !job.adds_to_sums)) no_sync.emplace(model);
        const Tensor output = model(batch, step % 3 == 0);
        (sum(output * output) / double(model.batch_rows())).backward();
      }
      optim::clip_grad_norm_(model.parameters(), 0.5);
      optimizer.step();
    }
    ends[std::size_t(world.rank().value())] = bytes_of(model);
  }));
  return ends;
}

const std::array kJobs = {Job{1, 8}, Job{2, 4}, Job{4, 2}, Job{8, 1}};

TEST(Processes, TrainTheModelOfOneProcessWithAllTheDevices) {
  const std::string one = train({1, 8})[0];
  for (const Job& job : kJobs)
    for (const std::string& end : train(job)) EXPECT_TRUE(end == one) << job.processes << " x " << job.devices;
}

TEST(Processes, TrainTheSameWithAShardedOptimizer) {
  const auto expect_all = [](bool adds_to_sums, const std::string& one) {
    for (Job job : kJobs) {
      job.sharded = true;
      job.adds_to_sums = adds_to_sums;
      for (const std::string& end : train(job)) EXPECT_TRUE(end == one) << job.processes << " x " << job.devices;
    }
  };
  // Adding to a sharded sum rounds in another order than adding to a whole one.
  expect_all(false, train({1, 8, false, false})[0]);
  expect_all(true, train({1, 8, true, true})[0]);
}

// A mean over the rows of each process is weighted by its rows: up to rounding, the result is the mean of all rows.
TEST(Processes, WeighMeansByTheRowsOfEach) {
  const auto gradients = [](int processes, int each) {
    const SimulatedDevices devices({.count = processes * each});
    std::vector<float> found;
    expect_none(in_processes(processes, [&](const World& world) {
      DataParallel model(testing::Mlp(), {.device_ids = devices_of(world, each), .world = world});
      GeneratorState numbers = {.seed = 7};
      const GeneratorGuard guard(numbers);
      for (Tensor& p : model.parameters()) {
        const NoGrad no_grad;
        uniform_(p, -1, 1);
      }
      const std::int64_t begin = world.rank().value() == 0 ? 0 : 3, end = world.size() == 1 || begin == 3 ? 10 : 3;
      const Tensor batch = randn({10, 5}).narrow(0, begin, end - begin).to(model.device());
      const Tensor output = model(batch);
      mean(output * output).backward();
      if (world.is_first())
        for (const Tensor& p : model.parameters())
          for (const float v : p.grad().to_vector<float>()) found.push_back(v);
    }));
    return found;
  };
  const std::vector<float> one = gradients(1, 4), two = gradients(2, 2);
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-6);
}

// A process's share is applied once, also if a loss goes through the model twice, or through a gradient of it.
TEST(Processes, CountAShareOnceWhereAModelGetsWhatItHasMade) {
  const SimulatedDevices devices({.count = 4});
  std::vector<double> one;
  expect_none(in_processes(
      1, [&](const World& world) { one = testing::adversarial_gradients(world, devices_of(world, 2), 6); }));
  for (const int each : {1, 2})
    expect_none(in_processes(2, [&](const World& world) {
      const auto got = testing::adversarial_gradients(world, devices_of(world, each), 4);
      ASSERT_EQ(got.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(got[i], one[i], 1e-9) << i;
    }));
}

// Without a batch, no process has a number of rows: then all have equal weights.
struct Alone : nn::Module<Alone> {
  nn::Parameter weight{ones({3})};
  auto members() { return nn::members("weight", weight); }
  Tensor forward(double factor) { return sum(weight * factor); }
};

TEST(Processes, CountAlikeWhereThereIsNoBatch) {
  const SimulatedDevices devices({.count = 2});
  expect_none(in_processes(2, [&](const World& world) {
    DataParallel model(Alone(), {.device_ids = devices_of(world, 1), .world = world});
    mean(model(2.0)).backward();
    EXPECT_EQ(model.module().weight.grad().to_vector<float>(), std::vector<float>(3, 2));
  }));
}

TEST(Processes, EndWhenOneFails) {
  const SimulatedDevices devices({.count = 2});
  const auto thrown = in_processes(
      2,
      [&](const World& world) {
        DataParallel model(testing::Mlp(), {.device_ids = devices_of(world, 1), .world = world});
        if (!world.is_first()) throw InvalidArgument("a fault of the program");
        for (int i = 0; i < 3; ++i) sum(model(ones({4, 5}))).backward();
      },
      500ms);
  EXPECT_NE(testing::thrown<CollectiveError>([&] {
              std::rethrow_exception(thrown[0]);
            }).find("process 1 on simulated-host-1 did not reach a forward pass"),
            std::string::npos);
}

// The others learn at once that a backward has failed, also if it did before its first operation.
TEST(Processes, EndAtOnceWhenTheMemoryForABackwardIsMissing) {
  int failures = 0;
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    SimulatedDevices devices({.count = 2});
    const auto thrown = in_processes(2, [&](const World& world) {
      DataParallel model(testing::Mlp(), {.device_ids = devices_of(world, 1), .world = world});
      for (int i = 0; i < 2; ++i) {
        const Tensor loss = sum(model(ones({4, 5})));
        if (i == 1 && world.is_first()) devices.fault().fail_allocation({.device = 0, .nth = nth});
        loss.backward();
      }
      for (const Tensor& parameter : model.parameters()) parameter.grad().to_vector<float>();
    });
    devices.fault().clear();
    if (!thrown[0]) continue;
    ++failures;
    EXPECT_NE(testing::message_of<OutOfMemory>(thrown[0]).find("out of memory"), std::string::npos) << nth;
    EXPECT_NE(testing::message_of<CollectiveError>(thrown[1]).find("a backward failed in process 0"), std::string::npos)
        << nth;
  }
  EXPECT_GT(failures, 2);  // the bucket, the seed, and what the nodes compute
}

// The sums of the destructor are not those that the other process's backward waits for.
TEST(Processes, AModelThatIsDestroyedSumsNothingWhileAnotherTrains) {
  const SimulatedDevices devices({.count = 2});
  std::vector<float> gradient;
  const auto thrown = in_processes(
      2,
      [&](const World& world) {
        DataParallel model(testing::Mlp(), {.device_ids = devices_of(world, 1), .world = world});
        {
          const auto alone = model.no_sync();
          sum(model(ones({4, 5}))).backward();
        }
        const Tensor loss = sum(model(ones({4, 5})));
        if (world.is_first()) return;
        loss.backward();
        gradient = model.parameters()[0].grad().to_vector<float>();
      },
      500ms);
  EXPECT_NE(testing::message_of<CollectiveError>(thrown[1]).find("process 0"), std::string::npos);
  EXPECT_TRUE(gradient.empty());
}

// Each process holds its backward until six of eight buckets are summed over both. This would hang if the sums waited
// for the end of either backward.
TEST(Processes, SumBucketsWhileBackwardRuns) {
  const SimulatedDevices devices({.count = 2});
  const Trace trace;
  std::array<std::atomic<int>, 2> before = {}, early = {};
  const auto sums_so_far = [&](int p) { return testing::count_all_reduces(trace, Device::cuda(p)); };
  std::atomic<bool> holds = false;
  BlockingModel::before_last = [&](Device device) {
    if (!holds) return;
    const auto p = std::size_t(device.index());
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (sums_so_far(device.index()) < before[p] + 6 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    early[p] = sums_so_far(device.index()) - before[p];
  };
  expect_none(in_processes(2, [&](const World& world) {
    const int p = world.rank().value();
    DataParallel model(BlockingModel(),
                       {.device_ids = devices_of(world, 1),
                        .buckets = {.first_bytes = BlockingModel::kLayerBytes, .bytes = BlockingModel::kLayerBytes},
                        .world = world});
    const auto run = [&] { sum(model(ones({4, 32}, {.device = model.device()}))).backward(); };
    run();  // rebuilds the buckets
    model.zero_grad();
    synchronize(model.device());
    before[std::size_t(p)] = sums_so_far(p);
    world.barrier();
    holds = true;
    run();
    synchronize(model.device());
    EXPECT_EQ(sums_so_far(p) - before[std::size_t(p)], 8);
  }));
  BlockingModel::before_last = nullptr;
  EXPECT_GE(early[0], 6);
  EXPECT_GE(early[1], 6);
}

// The guarantees of MPI's and NCCL's collectives, over ranks of several processes; sums have the bits of one process.
class Collectives : public ::testing::TestWithParam<DType> {};

TEST_P(Collectives, OfSeveralProcessesAreThoseOfOne) {
  constexpr int kRanks = 6;
  constexpr std::int64_t kCount = 600'003;  // several pieces for each process, not a whole number of them
  constexpr std::int64_t kFew = 1001;       // few enough that each process adds up all
  std::vector<Tensor> drawn;                // by rank
  for (int rank = 0; rank < kRanks; ++rank) {
    GeneratorState numbers = {.seed = std::uint64_t(rank)};
    const GeneratorGuard guard(numbers);
    drawn.push_back(randn({kCount}).to(GetParam()));
  }
  const SimulatedDevices devices({.count = kRanks});
  const auto outcome = [&](int processes) {
    const int each = kRanks / processes;
    std::vector<std::vector<Tensor>> results(kRanks);
    expect_none(in_processes(processes, [&](const World& world) {
      std::vector<Device> own;
      for (const int id : devices_of(world, each)) own.push_back(Device::cuda(id));
      Communicator communicator(own, world);
      EXPECT_EQ(communicator.size(), kRanks);
      std::vector<Tensor> sent, sum, few, one_sum, shard, gathered;
      std::vector<RankBuffers> reduces, fews, to_one, scatters, gathers;
      std::vector<Stream> streams;
      std::vector<std::size_t> counts = {1, 270'000, 0, 30'000, 2, 300'000};
      for (int d = 0; d < each; ++d) {
        const int rank = communicator.first_rank().value() + d;
        const Device device = own[std::size_t(d)];
        const TensorOptions there = {.dtype = GetParam(), .device = device};
        sent.push_back(drawn[std::size_t(rank)].to(device));
        sum.push_back(empty({kCount}, there));
        few.push_back(sent.back().narrow(0, 0, kFew).clone());
        one_sum.push_back(sent.back().clone());
        shard.push_back(empty({std::int64_t(counts[std::size_t(rank)])}, there));
        gathered.push_back(empty({kCount}, there));
        const Stream stream = current_stream(device);
        streams.push_back(stream);
        const auto data = [](const Tensor& t) { return t.numel() ? t.impl()->data() : nullptr; };
        reduces.push_back({stream, data(sent.back()), data(sum.back())});
        fews.push_back({stream, data(few.back()), data(few.back())});
        to_one.push_back({stream, data(one_sum.back()), data(one_sum.back())});
        scatters.push_back({stream, data(sent.back()), data(shard.back())});
        gathers.push_back({stream, data(shard.back()), data(gathered.back())});
      }
      communicator.all_reduce(reduces, std::size_t(kCount), GetParam(), ReduceOp::mean);
      communicator.all_reduce(fews, std::size_t(kFew), GetParam(), ReduceOp::max);
      communicator.reduce(to_one, std::size_t(kCount), GetParam(), 4);
      communicator.reduce_scatter(scatters, counts, GetParam());
      communicator.all_gather(gathers, counts, GetParam());
      communicator.barrier(streams);
      for (int d = 0; d < each; ++d) {
        std::vector<Tensor>& result = results[std::size_t(communicator.first_rank().value() + d)];
        for (const auto& of_each : {sum, few, one_sum, gathered}) result.push_back(of_each[std::size_t(d)].cpu());
      }
    }));
    return results;
  };
  const auto same_bytes = [](const Tensor& a, const Tensor& b) {
    return a.numel() == b.numel() &&
           std::memcmp(a.impl()->data(), b.impl()->data(), std::size_t(a.numel()) * size_of(a.dtype())) == 0;
  };
  const auto one = outcome(1);
  EXPECT_TRUE(same_bytes(one[0][0], one[5][0]) && same_bytes(one[0][1], one[5][1])) << "sums for all";
  for (const int processes : {2, 3, 6}) {
    const auto several = outcome(processes);
    for (std::size_t rank = 0; rank < one.size(); ++rank)
      EXPECT_TRUE(std::ranges::equal(several[rank], one[rank], same_bytes)) << processes << ", rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Collectives, ::testing::Values(kFloat32, kFloat64, kBFloat16, kFloat16));

TEST(Processes, MessagesGoBetweenRanksOfAnyProcess) {
  const SimulatedDevices devices({.count = 4});
  expect_none(in_processes(2, [&](const World& world) {
    const int first = 2 * world.rank().value();
    const std::vector<Device> own = {Device::cuda(first), Device::cuda(first + 1)};
    Communicator communicator(own, world);
    // Each rank sends its number to the next, and the last to the first.
    std::vector<Tensor> sent, received;
    std::vector<Stream> streams;
    std::vector<Transfer> transfers(4);
    for (int d = 0; d < 2; ++d) {
      sent.push_back(full({3}, double(first + d), {.device = own[std::size_t(d)]}));
      received.push_back(zeros({3}, {.device = own[std::size_t(d)]}));
      streams.push_back(current_stream(own[std::size_t(d)]));
    }
    for (int rank = 0; rank < 4; ++rank) {
      Transfer& transfer = transfers[std::size_t(rank)];
      transfer = {.from = rank, .to = (rank + 1) % 4, .count = 3};
      if (rank / 2 == world.rank().value()) transfer.send = sent[std::size_t(rank % 2)].impl()->data();
      if (transfer.to / 2 == world.rank().value())
        transfer.receive = received[std::size_t(transfer.to % 2)].impl()->data();
    }
    communicator.send_receive(streams, transfers, kFloat32);
    for (int d = 0; d < 2; ++d)
      EXPECT_EQ(received[std::size_t(d)].to_vector<float>(), std::vector<float>(3, float((first + d + 3) % 4)));
  }));
}

}  // namespace
}  // namespace lockstep::processes
