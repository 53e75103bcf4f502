// Expressions that users of libtorch write, by name. make_idioms.py and make_training_idioms.py compute the same with
// PyTorch.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

namespace lockstep {

struct Idiom {
  std::string name;
  std::function<Tensor()> run;
};

std::vector<Idiom> tensor_idioms();    // creation, types, shapes
std::vector<Idiom> math_idioms();      // arithmetic, comparison, reductions, products
std::vector<Idiom> indexing_idioms();  // indexing, index assignment, sorting
std::vector<Idiom> order_idioms();     // order, search, indices, windows
std::vector<Idiom> graph_idioms();     // functions of models, padded sequences, hooks, modes
std::vector<Idiom> model_idioms();     // layers, losses, gradients, optimizers
std::vector<Idiom> training_idioms();  // schedules, averages, submodules, options by name and by position, data

// The operands of most idioms; the scripts use the same.
inline Tensor matrix() { return tensor({{1., -2., 3.}, {-4., 5., -6.}}); }
inline Tensor other() { return tensor({{2., 2., 2.}, {-4., 1., 0.5}}); }
inline Tensor whole() { return arange(12).view({3, 4}); }
inline Tensor leaf() { return matrix().requires_grad_(); }
inline Tensor image() { return linspace(-1, 1, 72).view({1, 2, 6, 6}); }
inline Tensor positive() { return tensor({{0.5, 1., 2.}, {4., 8., 16.}}); }

}  // namespace lockstep
