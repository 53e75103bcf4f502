#include <cmath>
#include <tuple>

#include "idioms/idioms.h"

namespace lockstep {

std::vector<Idiom> math_idioms() {
  return {
      {"add", [] { return matrix() + other(); }},
      {"add a number", [] { return matrix() + 1; }},
      {"add in place", [] { return matrix().add_(other(), 2); }},
      {"subtract from a number", [] { return 1 - matrix(); }},
      {"multiply", [] { return matrix() * other(); }},
      {"divide", [] { return matrix() / other(); }},
      {"divide integers",
       [] {
         return tensor({7, 8}) / 2;
       }},
      {"number over a tensor", [] { return 2 / other(); }},
      {"remainder",
       [] {
         return tensor({-3, 3, 7}) % 4;
       }},
      {"remainder of floats", [] { return remainder(matrix(), 1.5); }},
      {"remainder of tensors", [] { return matrix().remainder(other()); }},
      {"negate", [] { return -matrix(); }},
      {"compound assignment",
       [] {
         Tensor x = matrix();
         x += 1;
         x *= other();
         x -= other();
         x /= 2;
         return x;
       }},
      {"pow", [] { return matrix().pow(2); }},
      {"pow of a tensor", [] { return positive().pow(other()); }},
      {"number to the power of a tensor", [] { return pow(2, matrix()); }},
      {"abs", [] { return matrix().abs(); }},
      {"exp", [] { return matrix().exp(); }},
      {"log", [] { return positive().log(); }},
      {"log2", [] { return positive().log2(); }},
      {"log10", [] { return positive().log10(); }},
      {"sqrt", [] { return positive().sqrt(); }},
      {"rsqrt", [] { return positive().rsqrt(); }},
      {"sin", [] { return matrix().sin(); }},
      {"tan", [] { return matrix().tan(); }},
      {"tanh", [] { return matrix().tanh(); }},
      {"sigmoid", [] { return matrix().sigmoid(); }},
      {"relu", [] { return matrix().relu(); }},
      {"free relu", [] { return relu(matrix()); }},
      {"relu in place", [] { return matrix().relu_(); }},
      {"sigmoid in place", [] { return matrix().sigmoid_(); }},
      {"floor", [] { return (matrix() / 4).floor(); }},
      {"round", [] { return (matrix() / 4).round(); }},
      {"sign", [] { return matrix().sign(); }},
      {"clamp", [] { return matrix().clamp(-1, 2); }},
      {"free clamp", [] { return clamp(matrix(), 0, 1); }},
      {"clamp_min", [] { return matrix().clamp_min(0); }},
      {"clamp_max", [] { return matrix().clamp_max(0); }},
      {"clamp in place", [] { return matrix().clamp_(0, 3); }},
      {"equal elements", [] { return matrix() == other(); }},
      {"equal to a number", [] { return matrix() == 3; }},
      {"different elements", [] { return matrix() != other(); }},
      {"number different", [] { return 3 != matrix(); }},
      {"less", [] { return matrix() < other(); }},
      {"number less", [] { return 0 < matrix(); }},
      {"eq", [] { return matrix().eq(other()); }},
      {"ge", [] { return matrix().ge(0); }},
      {"accuracy",
       [] {
         Tensor target = tensor({2, 0});
         return matrix().argmax(1).eq(target).sum();
       }},
      {"and of masks", [] { return (matrix() > -3) & (matrix() < 3); }},
      {"or of masks", [] { return (matrix() < -3) | (matrix() > 3); }},
      {"or of masks in place",
       [] {
         Tensor done = matrix() < -3;
         done |= matrix() > 3;
         done &= tensor({true, false, true});
         return done;
       }},
      {"xor of bits in place",
       [] {
         Tensor x = whole();
         x ^= tensor(5);
         return x;
       }},
      {"not a mask", [] { return !(matrix() > 0); }},
      {"bits and",
       [] {
         return tensor({5, 6}) & tensor({3, 3});
       }},
      {"bits xor",
       [] {
         return tensor({5, 6}) ^ tensor({3, 3});
       }},
      {"bits not",
       [] {
         return ~tensor({0, 5});
       }},
      {"logical_and",
       [] {
         return matrix().logical_and(tensor({1, 0, 1}));
       }},
      {"where", [] { return where(matrix() > 0, matrix(), other()); }},
      {"where with a number", [] { return where(matrix() > 0, matrix(), 0); }},
      {"where as a method", [] { return matrix().where(matrix() > 0, other()); }},
      {"isnan", [] { return (zeros({2}) / zeros({2})).isnan(); }},
      {"allclose", [] { return tensor(allclose(matrix(), matrix() + 1e-9)); }},
      {"same tensors", [] { return tensor(equal(matrix(), matrix())); }},
      {"maximum", [] { return maximum(matrix(), other()); }},
      {"max of two", [] { return matrix().max(other()); }},
      {"sum", [] { return matrix().sum(); }},
      {"sum of a dimension", [] { return matrix().sum(1); }},
      {"sum keeps dimensions", [] { return matrix().sum(1, true); }},
      {"sum of two dimensions",
       [] {
         return arange(24).view({2, 3, 4}).sum({0, 2});
       }},
      {"free sum", [] { return sum(matrix(), 0); }},
      {"mean", [] { return matrix().mean(); }},
      {"mean of a dimension", [] { return matrix().mean(0); }},
      {"mean of dimensions",
       [] {
         return matrix().mean({0, 1});
       }},
      {"prod", [] { return matrix().prod(); }},
      {"prod of a dimension", [] { return matrix().prod(1); }},
      {"any", [] { return (matrix() > 4).any(); }},
      {"all of a dimension", [] { return (matrix() > -3).all(1); }},
      {"max", [] { return matrix().max(); }},
      {"max values", [] { return max(matrix(), 1).values; }},
      {"max indices",
       [] {
         auto [values, indices] = matrix().max(1);
         return indices;
       }},
      {"min values", [] { return matrix().min(0).values; }},
      {"argmax", [] { return matrix().argmax(); }},
      {"argmax of a dimension", [] { return matrix().argmax(1); }},
      {"argmin keeps dimensions", [] { return matrix().argmin(1, true); }},
      {"amax",
       [] {
         return matrix().amax({0, 1});
       }},
      {"var", [] { return matrix().var(); }},
      {"var without correction", [] { return matrix().var(1, false); }},
      {"std", [] { return matrix().std(1); }},
      {"norm", [] { return matrix().norm(); }},
      {"norm of a dimension", [] { return matrix().norm(2, 1); }},
      {"1-norm", [] { return matrix().norm(1); }},
      {"logsumexp", [] { return matrix().logsumexp(1); }},
      {"softmax", [] { return matrix().softmax(1); }},
      {"free softmax", [] { return softmax(matrix(), -1); }},
      {"log_softmax", [] { return matrix().log_softmax(1); }},
      {"cumsum", [] { return whole().cumsum(1); }},
      {"matmul", [] { return matrix().matmul(other().t()); }},
      {"mm", [] { return mm(matrix(), other().t()); }},
      {"bmm",
       [] {
         return ones({2, 1, 3}).bmm(arange(12, kFloat).view({2, 3, 2}));
       }},
      {"dot", [] { return dot(matrix()[0], other()[1]); }},
      {"outer",
       [] {
         return outer(tensor({1., 2.}), tensor({3., 4.}));
       }},
      {"einsum",
       [] {
         return einsum("ij,kj->ik", {matrix(), other()});
       }},
      {"normalize", [] { return normalize(matrix(), {.dim = 1}); }},
      {"cosine_similarity", [] { return cosine_similarity(matrix(), other()); }},
      {"cdist", [] { return cdist(matrix(), other()); }},
      {"first of a tuple", [] { return std::get<0>(matrix().max(1)); }},
      {"second of a tuple", [] { return std::get<1>(max(matrix(), 1)); }},
      {"tied",
       [] {
         Tensor values, indices;
         std::tie(values, indices) = matrix().sort(1);
         return indices;
       }},
      {"both of masks", [] { return matrix() > -3 && matrix() < 3; }},
      {"either of masks", [] { return matrix() < -3 || matrix() > 3; }},
      {"median", [] { return matrix().median(); }},
      {"median of a dimension", [] { return std::get<0>(whole().median(1)); }},
      {"median place", [] { return positive().median(0, true).indices; }},
      {"median of what is not a number",
       [] {
         return tensor({3., std::nan(""), 1.}).median();
       }},
      {"median place of what is not a number",
       [] {
         return tensor({3., std::nan(""), std::nan(""), 1.}).median(0).indices;
       }},
      {"addmm", [] { return ones({2}).addmm(matrix(), other().t(), 0.5, 2); }},
      {"lerp", [] { return matrix().lerp(other(), 0.25); }},
      {"lerp by a tensor",
       [] {
         return lerp(matrix(), other(), tensor({0., 0.75, 1.}));
       }},
      {"lerp_", [] { return matrix().lerp_(other(), 1); }},
      {"atan2", [] { return matrix().atan2(other()); }},
      {"free atan2",
       [] {
         return atan2(tensor({0., 0., -0., 1.}), tensor({1., -1., -1., 0.}));
       }},
      {"hypot", [] { return matrix().hypot(other()); }},
      {"hypot of large ones",
       [] {
         return hypot(tensor({3e30, 0.}), tensor({4e30, 0.}));
       }},
  };
}

}  // namespace lockstep
