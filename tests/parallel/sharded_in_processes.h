// Models of several processes, for tests of what their devices divide.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <vector>

#include <lockstep/ops/reduce.h>

#include "parallel/sharded.h"
#include "support/in_processes.h"

namespace lockstep::sharded {

/// Process p of `world` has the devices p * each, ..., p * each + each - 1.
inline DataParallelOptions options_in(const World& world, int each, Shard shard) {
  std::vector<int> devices;
  for (int d = 0; d < each; ++d) devices.push_back(world.rank().value() * each + d);
  DataParallelOptions all = options(shard, devices);
  all.world = world;
  all.loss = ProcessLoss::sum;
  return all;
}

inline void expect_no_failure(const std::vector<std::exception_ptr>& failures) {
  for (const std::exception_ptr& failure : failures) try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
}

/// The loss of a process's rows; with few rows, the last processes have none.
inline Tensor loss_of_process(DataParallel<Net>& model, int step) {
  const Tensor& batch = batches()[std::size_t(step) % batches().size()];
  const auto [first, count] = model.share().rows(batch.size(0));
  const Tensor output = model(batch.narrow(0, first, count).to(model.device()), step % 3 == 1);
  return sum(output * output) * 0.01;
}

inline void train_in_process(DataParallel<Net>& model, optim::Optimizer& optimizer, int from, int to) {
  for (int at = from; at < to; ++at) {
    optimizer.zero_grad();
    loss_of_process(model, at).backward();
    optimizer.step();
  }
}

}  // namespace lockstep::sharded
