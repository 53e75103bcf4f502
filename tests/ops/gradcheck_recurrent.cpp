// Gradient checks of recurrent cells and of whole sequences: forwards and in reverse, of equal and of different
// lengths.
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/recurrent.h>

#include "ops/gradcheck_cases.h"
#include "ops/recurrent/sequence.h"

namespace lockstep {
namespace {

using Values = std::vector<Tensor>;

// Inputs: x, h, weights and biases, and c for an LSTM.
DifferentiableFunction sequence(RecurrentKind kind, std::vector<std::int64_t> sizes, bool reverse) {
  return [=](const Values& v) {
    const bool has_cell = kind == RecurrentKind::lstm;
    const recurrent::Outputs out =
        recurrent::run("sequence", kind, {v[0], v[1], has_cell ? v[6] : Tensor(), v[2], v[3], v[4], v[5], Tensor()},
                       recurrent::Steps(sizes, reverse));
    return has_cell ? Values{out.output, out.h, out.c} : Values{out.output, out.h};
  };
}

GradientCase case_of(const char* name, RecurrentKind kind, std::vector<std::int64_t> sizes, bool reverse) {
  const std::int64_t in = 2, hidden = 2, wide = hidden * recurrent::gates_of(kind);
  std::int64_t rows = 0;
  for (const std::int64_t size : sizes) rows += size;
  GradientCase result = {name,
                         sequence(kind, sizes, reverse),
                         {{rows, in}, {sizes[0], hidden}, {wide, in}, {wide, hidden}, {wide}, {wide}}};
  if (kind == RecurrentKind::lstm) result.sizes.push_back({sizes[0], hidden});
  return result;
}

}  // namespace

std::vector<GradientCase> recurrent_gradient_cases() {
  const std::vector<Shape> rnn = {{3, 2}, {3, 2}, {2, 2}, {2, 2}, {2}, {2}};
  const std::vector<Shape> gru = {{3, 2}, {3, 2}, {6, 2}, {6, 2}, {6}, {6}};
  return {
      {"rnn_tanh_cell", [](const Values& v) { return rnn_tanh_cell(v[0], v[1], v[2], v[3], v[4], v[5]); }, rnn},
      {"rnn_relu_cell", [](const Values& v) { return rnn_relu_cell(v[0], v[1], v[2], v[3], v[4], v[5]); }, rnn},
      {"gru_cell", [](const Values& v) { return gru_cell(v[0], v[1], v[2], v[3], v[4], v[5]); }, gru},
      {"lstm_cell",
       [](const Values& v) {
         const LSTMState next = lstm_cell(v[0], {v[1], v[2]}, v[3], v[4]);
         return Values{next.h, next.c};
       },
       {{2, 2}, {2, 2}, {2, 2}, {8, 2}, {8, 2}}},
      // x is computed from the weight, whose gradient must not be counted twice.
      {"gru_of_dependent_inputs",
       [](const Values& v) { return gru_cell(matmul(v[0], v[1]), v[0], matmul(v[1].t(), v[1]), v[1].t()); },
       {{2, 2}, {2, 6}},
       -1,
       1},
      case_of("rnn_sequence", RecurrentKind::rnn_tanh, {2, 2}, false),
      case_of("rnn_relu_reverse_of_two_lengths", RecurrentKind::rnn_relu, {2, 1}, true),
      case_of("gru_sequence", RecurrentKind::gru, {2, 2}, false),
      case_of("gru_reverse", RecurrentKind::gru, {2, 2}, true),
      case_of("gru_of_two_lengths", RecurrentKind::gru, {2, 1}, false),
      case_of("lstm_sequence", RecurrentKind::lstm, {2, 2}, false),
      case_of("lstm_reverse", RecurrentKind::lstm, {2, 2}, true),
      case_of("lstm_of_two_lengths", RecurrentKind::lstm, {2, 1}, false),
      case_of("lstm_reverse_of_two_lengths", RecurrentKind::lstm, {2, 1}, true),
  };
}

}  // namespace lockstep
