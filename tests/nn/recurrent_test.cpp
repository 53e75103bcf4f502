// Recurrent layers and cells: their forms agree with each other, and with PyTorch's names. Values against PyTorch's:
// tests/reference/ops_test.cpp; gradients: tests/ops/gradcheck_recurrent.cpp.
#include <lockstep/nn/recurrent.h>

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/autograd.h>
#include <lockstep/nn/recurrent_cells.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/join.h>
#include <lockstep/ops/reduce.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include <lockstep/core/elementary.h>
#include "nn/modules.h"
#include "ops/recurrent/sequence.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "support/values.h"

namespace lockstep {
namespace {

using testing::keys;
using testing::thrown;
using testing::values;

constexpr TensorOptions kDoubles = {.dtype = kFloat64};

void expect_near(const Tensor& got, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  const auto a = values(got), b = values(expected);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

TEST(RecurrentLayers, HaveTheNamesAndShapesOfPyTorch) {
  nn::LSTM lstm(3, 5, {.num_layers = 2, .bidirectional = true, .proj_size = 2});
  const std::vector<std::string> kinds = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
  std::vector<std::string> expected;
  for (const char* const suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"})
    for (const std::string& kind : kinds) expected.push_back(kind + suffix);
  EXPECT_EQ(keys(lstm), expected);
  EXPECT_EQ(lstm.weights(0).weight_ih.sizes(), (Shape{20, 3}));
  EXPECT_EQ(lstm.weights(1, true).weight_ih.sizes(), (Shape{20, 4}));
  EXPECT_EQ(lstm.weights(1, true).weight_hh.sizes(), (Shape{20, 2}));
  EXPECT_EQ(lstm.weights(1, true).bias_hh->sizes(), (Shape{20}));
  EXPECT_EQ(lstm.weights().weight_hr->sizes(), (Shape{2, 5}));
  EXPECT_EQ(keys(nn::GRU(3, 4, {.bias = false})), (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0"}));
  EXPECT_EQ(keys(nn::LSTMCell(3, 4)), (std::vector<std::string>{"weight_ih", "weight_hh", "bias_ih", "bias_hh"}));
  EXPECT_EQ(nn::RNN(3, 4).weights().weight_ih.sizes(), (Shape{4, 3}));
  EXPECT_EQ(nn::GRU(3, 4).weights().weight_ih.sizes(), (Shape{12, 3}));
}

TEST(RecurrentLayers, StartWithinTheirBounds) {
  nn::GRU gru(10, 25);
  double most = 0;
  for (const Tensor& parameter : gru.parameters())
    for (const double value : values(parameter)) most = std::max(most, std::abs(value));
  EXPECT_LE(most, 0.2);
  EXPECT_GT(most, 0.19);
}

TEST(RecurrentLayers, LoadWhatTheySave) {
  nn::LSTM a(3, 4, {.num_layers = 2}), b(3, 4, {.num_layers = 2});
  b.load_state_dict(a.state_dict());
  const Tensor x = randn({5, 2, 3});
  EXPECT_EQ(values(a(x).output), values(b(x).output));
  nn::LSTM c(a);
  EXPECT_EQ(values(a(x).output), values(c(x).output));
  EXPECT_FALSE(c.weights().weight_ih.is_same(a.weights().weight_ih));
}

// Compares every kind of layer, in both directions and with a state, with its cells step by step.
TEST(RecurrentLayers, AreTheirCellsStepByStep) {
  const Tensor x = randn({6, 3, 2}, kDoubles), h0 = randn({2, 3, 4}, kDoubles), c0 = randn({2, 3, 4}, kDoubles);
  nn::LSTM lstm(2, 4, {.bidirectional = true, .tensor = kDoubles});
  nn::GRU gru(2, 4, {.bidirectional = true, .tensor = kDoubles});
  const nn::LSTMOutput from_lstm = lstm(x, h0, c0);
  const nn::RNNOutput from_gru = gru(x, h0);
  for (const bool reverse : {false, true}) {
    const auto &w = lstm.weights(0, reverse), &v = gru.weights(0, reverse);
    const std::int64_t direction = reverse;
    LSTMState state = {h0[direction], c0[direction]};
    Tensor h = h0[direction];
    for (int nth = 0; nth < 6; ++nth) {
      const int t = reverse ? 5 - nth : nth;
      state = lstm_cell(x[t], state, w.weight_ih, w.weight_hh, *w.bias_ih, *w.bias_hh);
      h = gru_cell(x[t], h, v.weight_ih, v.weight_hh, *v.bias_ih, *v.bias_hh);
      expect_near(from_lstm.output[t].narrow(1, 4 * direction, 4), state.h);
      expect_near(from_gru.output[t].narrow(1, 4 * direction, 4), h);
    }
    expect_near(from_lstm.h[direction], state.h);
    expect_near(from_lstm.c[direction], state.c);
    expect_near(from_gru.h[direction], h);
  }
}

TEST(RecurrentLayers, GoOnFromAState) {
  nn::LSTM lstm(2, 4, {.num_layers = 2, .tensor = kDoubles});
  const Tensor x = randn({7, 3, 2}, kDoubles);
  const nn::LSTMOutput whole = lstm(x), first = lstm(x.narrow(0, 0, 4));
  const nn::LSTMOutput rest = lstm(x.narrow(0, 4, 3), first.h, first.c);
  expect_near(cat({first.output, rest.output}), whole.output);
  expect_near(rest.h, whole.h);
  expect_near(rest.c, whole.c);
}

TEST(RecurrentLayers, TakeBatchesFirstAndOneSequence) {
  nn::GRU gru(2, 4, {.bidirectional = true, .tensor = kDoubles});
  nn::GRU batch_first(2, 4, {.batch_first = true, .bidirectional = true, .tensor = kDoubles});
  batch_first.load_state_dict(gru.state_dict());
  const Tensor x = randn({5, 3, 2}, kDoubles), h = randn({2, 3, 4}, kDoubles);
  const nn::RNNOutput expected = gru(x, h), got = batch_first(x.transpose(0, 1), h);
  EXPECT_EQ(got.output.sizes(), (Shape{3, 5, 8}));
  expect_near(got.output.transpose(0, 1), expected.output);
  expect_near(got.h, expected.h);
  for (nn::GRU* const layer : {&gru, &batch_first}) {
    const nn::RNNOutput one = (*layer)(x.select(1, 1), h.select(1, 1));
    expect_near(one.output, expected.output.select(1, 1));
    expect_near(one.h, expected.h.select(1, 1));
  }
}

TEST(RecurrentLayers, TakePackedSequencesAsEachAlone) {
  const std::vector<std::int64_t> lengths = {3, 5, 1, 3};
  const Tensor x = randn({4, 5, 2}, kDoubles), h = randn({4, 4, 3}, kDoubles), c = randn({4, 4, 3}, kDoubles);
  nn::LSTM lstm(2, 3, {.num_layers = 2, .batch_first = true, .bidirectional = true, .tensor = kDoubles});
  const nn::PackedSequence packed =
      nn::pack_padded_sequence(x, lengths, {.batch_first = true, .enforce_sorted = false});
  const nn::PackedLSTMOutput got = lstm(packed, h, c);
  const nn::PaddedSequence padded = nn::pad_packed_sequence(got.output, {.batch_first = true});
  EXPECT_EQ(padded.lengths, lengths);
  std::vector<Tensor> roots = {sum(padded.output * padded.output), sum(got.h * got.h), sum(got.c)}, expected_roots;
  for (int i = 0; i < 4; ++i) {
    const nn::LSTMOutput alone = lstm(x[i].narrow(0, 0, lengths[std::size_t(i)]), h.select(1, i), c.select(1, i));
    expect_near(padded.output[i].narrow(0, 0, lengths[std::size_t(i)]), alone.output);
    expect_near(got.h.select(1, i), alone.h);
    expect_near(got.c.select(1, i), alone.c);
    expected_roots.insert(expected_roots.end(),
                          {sum(alone.output * alone.output), sum(alone.h * alone.h), sum(alone.c)});
  }
  const std::vector<Tensor> parameters = lstm.parameters();
  const std::vector<Tensor> gradient = gradients(roots, parameters), expected = gradients(expected_roots, parameters);
  for (std::size_t i = 0; i < expected.size(); ++i) expect_near(gradient[i], expected[i], 1e-11);
}

TEST(RecurrentLayers, ComputeOnADeviceAsOnTheCpu) {
  const TestDevices devices(1);
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    nn::GRU gru(3, 5, {.num_layers = 2, .bidirectional = true, .tensor = {.dtype = dtype}});
    nn::GRU there(gru);
    there.to("cuda:0");
    const Tensor x = randn({6, 4, 3}).to(dtype);
    const nn::RNNOutput a = gru(x), b = there(x.cuda());
    const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : 0.05;
    expect_near(b.output, a.output, tolerance);
    sum(a.output * a.output).backward();
    sum(b.output * b.output).backward();
    const auto on_cpu = gru.parameters(), on_device = there.parameters();
    for (std::size_t i = 0; i < on_cpu.size(); ++i)
      expect_near(on_device[i].grad(), on_cpu[i].grad(), dtype == kBFloat16 ? 1 : 100 * tolerance);
  }
}

// Wide enough for vector instructions, and not a multiple of their width.
TEST(RecurrentSequences, AreTheirComposition) {
  for (const RecurrentKind kind :
       {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::gru, RecurrentKind::lstm})
    for (const bool reverse : {false, true})
      for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{5, 5, 5}, {5, 3, 3, 1}}) {
        const std::int64_t wide = 37 * recurrent::gates_of(kind);
        const recurrent::Steps steps(sizes, reverse);
        const auto input = [](const Shape& shape) { return (randn(shape) * 0.2).requires_grad_(); };
        recurrent::Inputs in = {input({steps.total(), 9}),
                                input({5, 37}),
                                {},
                                input({wide, 9}),
                                input({wide, 37}),
                                input({wide}),
                                input({wide}),
                                {}};
        std::vector<Tensor> inputs = {in[0], in[1], in[3], in[4], in[5], in[6]};
        if (kind == RecurrentKind::lstm) inputs.push_back(in[recurrent::kC] = input({5, 37}));
        const recurrent::Outputs got = recurrent::run("sequence", kind, in, steps),
                                 expected = recurrent::composed(kind, in, steps);
        const auto loss = [](const recurrent::Outputs& out) {
          const Tensor both = sum(out.output * out.output) + sum(out.h);
          return out.c.defined() ? both + sum(out.c * out.c) : both;
        };
        expect_near(got.output, expected.output, 1e-5);
        const auto a = gradients(std::vector{loss(got)}, inputs), b = gradients(std::vector{loss(expected)}, inputs);
        for (std::size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-4 * (1 + max(abs(b[i])).item<double>()));
      }
}

TEST(RecurrentSequences, HaveAGradientOfTheLastStateAlone) {
  nn::LSTM lstm(2, 3, {.tensor = kDoubles});
  const Tensor x = randn({4, 2, 2}, kDoubles).requires_grad_();
  const nn::LSTMOutput out = lstm(x);
  const Tensor from_h = gradients({sum(out.h)}, {x})[0], from_output = gradients({sum(lstm(x).output[3])}, {x})[0];
  expect_near(from_h, from_output);
}

TEST(RecurrentSequences, RefuseBackwardOfOutputsThatWereChanged) {
  nn::RNN rnn(2, 3);
  const Tensor x = randn({4, 2, 2}).requires_grad_();
  Tensor output = rnn(x).output;
  {
    const NoGrad guard;
    output.add_(1);
  }
  EXPECT_THROW(sum(output).backward(), AutogradError);
}

TEST(GateFunctions, AreExactToAFewUnitsAndKeepWhatIsNotANumber) {
  for (float x = -30; x < 30; x += 0.01f) {
    EXPECT_NEAR(elementary::sigmoid(x) * (1 + std::exp(-double(x))), 1, 4e-7) << x;
    EXPECT_NEAR(elementary::tanh(x), std::tanh(double(x)), 4e-7 * std::abs(std::tanh(double(x))) + 1e-30) << x;
  }
  EXPECT_EQ(elementary::tanh(0.0f), 0);
  EXPECT_EQ(elementary::tanh(INFINITY), 1);
  EXPECT_EQ(elementary::sigmoid(INFINITY), 1);
  EXPECT_NEAR(elementary::sigmoid(-INFINITY), 0, 1e-37);
  EXPECT_TRUE(std::isnan(elementary::tanh(NAN)));
  EXPECT_TRUE(std::isnan(elementary::sigmoid(NAN)));
}

TEST(RecurrentLayers, DropBetweenLayersInTrainingOnly) {
  nn::RNN rnn(2, 50, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = randn({3, 4, 2});
  EXPECT_NE(values(rnn(x).output), values(rnn(x).output));
  EXPECT_EQ(values(rnn(x).h[0]), values(rnn(x).h[0]));  // the first layer's state is not dropped
  rnn.eval();
  EXPECT_EQ(values(rnn(x).output), values(rnn(x).output));
}

TEST(RecurrentLayers, RefuseWhatDoesNotFit) {
  nn::LSTM lstm(3, 4, {.num_layers = 2});
  EXPECT_EQ(thrown<ShapeError>([&] {
              lstm(zeros({5, 2, 4}));
            }),
            "[LSTM] expected x [steps, batch, 3] or [steps, 3], got [5, 2, 4]");
  EXPECT_EQ(thrown<ShapeError>([&] { lstm(zeros({0, 2, 3})); }), "[LSTM] expected at least one step, got [0, 2, 3]");
  EXPECT_EQ(thrown<ShapeError>([&] {
              lstm(zeros({5, 2, 3}), zeros({1, 2, 4}), zeros({2, 2, 4}));
            }),
            "[LSTM] expected an initial h of shape [2, 2, 4], got [1, 2, 4]");
  EXPECT_EQ(thrown<InvalidArgument>([&] {
              lstm(zeros({5, 2, 3}), zeros({2, 2, 4}));
            }),
            "[LSTM] expected both initial states h and c, or neither, got only one");
  EXPECT_EQ(thrown<DTypeError>([&] {
              lstm(zeros({5, 2, 3}, kDoubles));
            }),
            "[LSTM] expected float64 as x has, got float32");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::GRU(3, 0); }),
            "[GRU] expected sizes and layers of at least 1, got 3 and 0, 1 layers");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::RNN(3, 4, {.dropout = 2}); }),
            "[RNN] expected a dropout from 0 to 1, got 2");
  EXPECT_EQ(thrown<InvalidArgument>([] { nn::LSTM(3, 4, {.proj_size = 4}); }),
            "[LSTM] expected a proj_size from 0 to below 4, got 4");
  EXPECT_EQ(thrown<InvalidArgument>([&] { lstm.weights(2); }),
            "[LSTM] expected one of 2 layers in one direction, got layer 2");
}

TEST(RecurrentCells, TakeBatchesAndRowsAndStartFromZero) {
  nn::LSTMCell lstm(3, 4);
  nn::GRUCell gru(3, 4);
  nn::RNNCell relu(3, 4, {.nonlinearity = nn::Nonlinearity::relu});
  const Tensor x = randn({2, 3});
  const LSTMState first = lstm(x), same = lstm(x, LSTMState{zeros({2, 4}), zeros({2, 4})});
  EXPECT_EQ(values(first.c), values(same.c));
  const LSTMState next = lstm(x, first), row = lstm(x[1], LSTMState{first.h[1], first.c[1]});
  expect_near(row.h, next.h[1], 1e-6);
  expect_near(row.c, next.c[1], 1e-6);
  expect_near(gru(x[0]), gru(x)[0], 1e-6);
  expect_near(relu(x[0]), relu(x)[0], 1e-6);
  EXPECT_THROW(gru(x, zeros({2, 5})), ShapeError);
  EXPECT_THROW(gru(zeros({2, 2})), ShapeError);
}

}  // namespace
}  // namespace lockstep
