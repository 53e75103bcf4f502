// Collectives over tensors: their results, version counts and errors.
#include <lockstep/parallel/collectives.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/runtime/simulation.h>
#include <lockstep/tensor/creation.h>

#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;
using Doubles = std::vector<double>;

// Three devices, and a tensor on each: rank r's elements are 10^r times 1, 2, 3 and so on.
class TensorCollectives : public ::testing::Test {
 protected:
  std::vector<Tensor> make(const std::vector<std::int64_t>& sizes) const {
    std::vector<Tensor> tensors;
    double unit = 1;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank, unit *= 10)
      tensors.push_back(
          arange(unit, unit * double(sizes[rank] + 1), unit, {.dtype = kFloat64, .device = Device::cuda(int(rank))}));
    return tensors;
  }
  static std::vector<std::uint64_t> versions(const std::vector<Tensor>& tensors) {
    std::vector<std::uint64_t> all;
    for (const Tensor& tensor : tensors) all.push_back(tensor.version());
    return all;
  }
  // True for each tensor whose version has changed since.
  static std::vector<bool> changed(const std::vector<Tensor>& tensors, const std::vector<std::uint64_t>& before) {
    std::vector<bool> all;
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) all.push_back(tensors[rank].version() != before[rank]);
    return all;
  }

  const TestDevices devices{3};
  Communicator communicator{{"cuda:0", "cuda:1", "cuda:2"}};
};

TEST_F(TensorCollectives, AllReduceChangesEveryTensor) {
  const std::vector<Tensor> tensors = make({2, 2, 2});
  const auto before = versions(tensors);
  collective::all_reduce(communicator, tensors);
  for (const Tensor& tensor : tensors) EXPECT_EQ(values(tensor), (Doubles{111, 222}));
  EXPECT_EQ(changed(tensors, before), (std::vector{true, true, true}));
  collective::all_reduce(communicator, tensors, ReduceOp::mean);
  EXPECT_EQ(values(tensors[2]), (Doubles{111, 222}));
}

TEST_F(TensorCollectives, ReduceChangesTheRootsTensor) {
  const std::vector<Tensor> tensors = make({2, 2, 2});
  const auto before = versions(tensors);
  collective::reduce(communicator, tensors, 1, ReduceOp::max);
  EXPECT_EQ(values(tensors[0]), (Doubles{1, 2}));
  EXPECT_EQ(values(tensors[1]), (Doubles{100, 200}));
  EXPECT_EQ(values(tensors[2]), (Doubles{100, 200}));
  EXPECT_EQ(changed(tensors, before), (std::vector{false, true, false}));
}

TEST_F(TensorCollectives, BroadcastChangesAllButTheRootsTensor) {
  const std::vector<Tensor> tensors = make({2, 2, 2});
  const auto before = versions(tensors);
  collective::broadcast(communicator, tensors, 1);
  for (const Tensor& tensor : tensors) EXPECT_EQ(values(tensor), (Doubles{10, 20}));
  EXPECT_EQ(changed(tensors, before), (std::vector{true, false, true}));
}

TEST_F(TensorCollectives, ReduceScatterChangesTheOutputs) {
  const std::vector<Tensor> inputs = make({4, 4, 4}), outputs = make({1, 0, 3});
  const auto inputs_before = versions(inputs), outputs_before = versions(outputs);
  collective::reduce_scatter(communicator, inputs, outputs);
  EXPECT_EQ(values(outputs[0]), Doubles{111});
  EXPECT_EQ(values(outputs[1]), Doubles{});
  EXPECT_EQ(values(outputs[2]), (Doubles{222, 333, 444}));
  EXPECT_EQ(changed(inputs, inputs_before), (std::vector{false, false, false}));
  EXPECT_EQ(changed(outputs, outputs_before), (std::vector{true, true, true}));
}

TEST_F(TensorCollectives, AllGatherChangesTheOutputs) {
  const std::vector<Tensor> inputs = make({1, 0, 3}), outputs = make({4, 4, 4});
  const auto inputs_before = versions(inputs), outputs_before = versions(outputs);
  collective::all_gather(communicator, inputs, outputs);
  for (const Tensor& output : outputs) EXPECT_EQ(values(output), (Doubles{1, 100, 200, 300}));
  EXPECT_EQ(changed(inputs, inputs_before), (std::vector{false, false, false}));
  EXPECT_EQ(changed(outputs, outputs_before), (std::vector{true, true, true}));
}

// Memory that another stream uses is not reused before that stream's work has ended.
TEST_F(TensorCollectives, OnOtherStreamsKeepTheirTensorsMemory) {
  std::vector<Stream> streams;
  for (const Device& device : communicator.devices()) streams.push_back(Stream::from_pool(device));
  for (int round = 0; round < 3; ++round) {
    {
      const std::vector<Tensor> tensors = make({500, 500, 500});
      for (const Stream& stream : streams) stream.wait(current_stream(stream.device()).record());
      collective::all_reduce(communicator, tensors, ReduceOp::sum, streams);
    }
    EXPECT_NO_THROW({
      make({500, 500, 500});
      for (const Device& device : communicator.devices()) synchronize(device);
    });
  }
}

TEST_F(TensorCollectives, RefuseWhatDoesNotFitByRankBeforeAnythingIsChanged) {
  const std::vector<Tensor> tensors = make({2, 2, 2});
  const auto before = versions(tensors);
  const auto with = [&](const Tensor& last) { return std::vector{tensors[0], tensors[1], last}; };
  const auto refused = [&](const Tensor& last) {
    return [&, last] { collective::all_reduce(communicator, with(last)); };
  };
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              collective::broadcast(communicator, make({2, 2}), 0);
            }),
            "[broadcast] expected one tensor for each of 3 ranks, got 2");
  EXPECT_EQ(thrown<DeviceMismatch>(refused(tensors[1])),
            "[all_reduce] expected the tensor of rank 2 on cuda:2, got it on cuda:1");
  EXPECT_EQ(thrown<DTypeError>(refused(tensors[2].to(kFloat32))),
            "[all_reduce] expected the tensor of rank 2 to be float64 as that of rank 0, got float32");
  EXPECT_EQ(thrown<ShapeError>(refused(make({2, 2, 3})[2])),
            "[all_reduce] expected the tensor of rank 2 to have sizes [2] as that of rank 0, got [3]");
  EXPECT_EQ(thrown<InvalidArgument>(refused(make({4, 4, 4})[2].slice(0, 0, 4, 2))),
            "[all_reduce] expected a contiguous tensor of rank 2, got strides [2] for sizes [2]");
  EXPECT_EQ(thrown<ShapeError>([&] {
              collective::all_gather(communicator, tensors, make({5, 5, 5}));
            }),
            "[all_gather] expected 6 elements for the shards of all ranks, got sizes [5] on rank 0");
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              collective::all_reduce(communicator, tensors, ReduceOp::sum, std::vector{current_stream("cuda:0")});
            }),
            "[all_reduce] expected one stream for each of 3 ranks, got 1");
  EXPECT_EQ(thrown<InvalidArgument>([&] { collective::reduce(communicator, tensors, 3); }),
            "[reduce] expected a root from 0 to 2, got 3");
  EXPECT_EQ(changed(tensors, before), (std::vector{false, false, false}));
}

}  // namespace
}  // namespace lockstep
