// Sequences of different lengths: padded, packed, and back.
#include <lockstep/nn/packed_sequence.h>

#include <gtest/gtest.h>

#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>

#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::thrown;
using testing::values;

TEST(PackedSequences, HoldTheRowsOfEachStep) {
  const Tensor x = tensor({{1., 2., 3.}, {4., 0., 0.}, {5., 6., 0.}});  // [batch, steps]
  const nn::PackedSequence packed =
      nn::pack_padded_sequence(x, {3, 1, 2}, {.batch_first = true, .enforce_sorted = false});
  EXPECT_EQ(values(packed.data), (std::vector<double>{1, 5, 4, 2, 6, 3}));
  EXPECT_EQ(packed.batch_sizes, (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(packed.sorted_indices, (std::vector<std::int64_t>{0, 2, 1}));
  EXPECT_EQ(packed.unsorted_indices, (std::vector<std::int64_t>{0, 2, 1}));
  const nn::PaddedSequence padded =
      nn::pad_packed_sequence(packed, {.batch_first = true, .padding_value = -1, .total_length = 4});
  EXPECT_EQ(values(padded.output), (std::vector<double>{1, 2, 3, -1, 4, -1, -1, -1, 5, 6, -1, -1}));
  EXPECT_EQ(padded.lengths, (std::vector<std::int64_t>{3, 1, 2}));
  EXPECT_EQ(values(nn::pad_packed_sequence(packed).output), (std::vector<double>{1, 4, 5, 2, 0, 6, 3, 0, 0}));
}

TEST(PackedSequences, AreMadeOfSequencesToo) {
  const Tensor a = tensor({1., 2.}), b = tensor({3., 4., 5.}), c = tensor({6.});
  const nn::PackedSequence packed = nn::pack_sequence({a, b, c}, false);
  EXPECT_EQ(values(packed.data), (std::vector<double>{3, 1, 6, 4, 2, 5}));
  EXPECT_EQ(values(nn::pad_sequence({a, b, c}, {.batch_first = true})),
            (std::vector<double>{1, 2, 0, 3, 4, 5, 6, 0, 0}));
  EXPECT_EQ(values(nn::pad_sequence({a, b}, {.padding_value = 9})), (std::vector<double>{1, 3, 2, 4, 9, 5}));
}

TEST(PackedSequences, PassGradientsToTheirRowsAlone) {
  const Tensor x = ones({2, 3, 1}).requires_grad_();
  sum(nn::pack_padded_sequence(x, {3, 1}, {.batch_first = true}).data).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<double>{1, 1, 1, 1, 0, 0}));
}

TEST(PackedSequences, RefuseWhatDoesNotFit) {
  const Tensor x = zeros({3, 2, 1});
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              nn::pack_padded_sequence(x, {2, 3});
            }),
            "[pack_padded_sequence] expected lengths that do not grow, got 3 after 2: use enforce_sorted = false");
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              nn::pack_padded_sequence(x, {3, 0});
            }),
            "[pack_padded_sequence] expected lengths of at least 1, got 0 of sequence 1");
  EXPECT_EQ(thrown<ShapeError>([&] { nn::pack_padded_sequence(x, {3}); }),
            "[pack_padded_sequence] expected 2 lengths for [3, 2, 1], got 1");
  EXPECT_EQ(thrown<ShapeError>([&] {
              nn::pack_padded_sequence(x, {4, 1});
            }),
            "[pack_padded_sequence] expected lengths of at most 3, got 4");
  const nn::PackedSequence packed = nn::pack_padded_sequence(x, {3, 1});
  EXPECT_EQ(thrown<InvalidArgument>([&] { nn::pad_packed_sequence(packed, {.total_length = 2}); }),
            "[pad_packed_sequence] expected a total_length of at least 3, got 2");
  EXPECT_THROW(nn::pad_sequence({}), InvalidArgument);
}

// Expected values are from PyTorch 2.15.
TEST(PackedSequences, ByPyTorchsNamesAndArguments) {
  namespace rnn = nn::utils::rnn;
  const Tensor x = tensor({{1, 2, 0}, {3, 4, 5}, {6, 0, 0}});
  const rnn::PackedSequence packed = rnn::pack_padded_sequence(x, tensor({2, 3, 1}), true, false);
  EXPECT_EQ(values(packed.data), (std::vector<double>{3, 1, 6, 4, 2, 5}));
  EXPECT_EQ(packed.batch_sizes, (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(packed.sorted_indices, (std::vector<std::int64_t>{1, 0, 2}));
  const auto [padded, lengths] = rnn::pad_packed_sequence(packed, true, -1);
  EXPECT_EQ(values(padded), (std::vector<double>{1, 2, -1, 3, 4, 5, 6, -1, -1}));
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{2, 3, 1}));
  EXPECT_EQ(values(rnn::pack_padded_sequence(x, {2, 3, 1}, true, false).data), values(packed.data));
  const std::vector<Tensor> rows = {tensor({1, 2, 3}), tensor({4})};
  EXPECT_EQ(values(rnn::pad_sequence(rows, true)), (std::vector<double>{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(values(rnn::pad_sequence({rows[0], rows[1]}, false, 9)), (std::vector<double>{1, 4, 2, 9, 3, 9}));
  EXPECT_THROW(nn::pack_padded_sequence(x, tensor({2., 3., 1.})), ShapeError);
  EXPECT_THROW(nn::pack_padded_sequence(x, tensor({{2, 3, 1}})), ShapeError);
}

TEST(PackedSequences, PaddedOnTheLeft) {
  const Tensor padded = nn::pad_sequence({tensor({1, 2, 3}), tensor({4})},
                                         {.batch_first = true, .padding_value = -1, .padding_side = "left"});
  EXPECT_EQ(values(padded), (std::vector<double>{1, 2, 3, -1, -1, 4}));
  EXPECT_THROW(nn::pad_sequence({tensor({1})}, {.padding_side = "top"}), InvalidArgument);
}

TEST(PackedSequences, BecomeSequencesAgain) {
  const auto parts = nn::unpad_sequence(tensor({{1, 2}, {3, 0}}), {2, 1});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(values(parts[0]), (std::vector<double>{1, 3}));
  EXPECT_EQ(values(parts[1]), (std::vector<double>{2}));
  const Tensor x = tensor({{1, 2, 0}, {3, 4, 5}, {6, 0, 0}});
  const auto unpacked = nn::unpack_sequence(nn::pack_padded_sequence(x, {2, 3, 1}, true, false));
  ASSERT_EQ(unpacked.size(), 3u);
  EXPECT_EQ(values(unpacked[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(values(unpacked[1]), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(values(unpacked[2]), (std::vector<double>{6}));
  EXPECT_THROW(nn::unpad_sequence(x, {2, 3}), ShapeError);
  EXPECT_THROW(nn::unpad_sequence(x, {2, 3, 4}), ShapeError);
}

}  // namespace
}  // namespace lockstep
