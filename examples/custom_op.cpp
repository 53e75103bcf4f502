// Custom operations with gradients, from public headers alone: SwiGLU as one kernel, and a row-wise norm. This source
// runs them on the CPU, on simulated GPUs and on GPUs, and trains a model on 1..N of them.
//   custom_op [--simulate N]
#include <lockstep/extend/op.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <vector>

#include "arguments.h"

using namespace lockstep;

namespace {

// x sigmoid(beta x) gate (Shazeer 2020, "GLU Variants Improve Transformer"), and the gradients of its three inputs.
struct Swiglu {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T gate, T beta) const {
    return x * sigmoid(beta * x) * gate;
  }
  template <class T>
  LOCKSTEP_HD std::array<T, 3> gradient(const T& g, const T& x, const T& gate, const T& beta) const {
    const T s = sigmoid(beta * x);
    const T slope = g * gate * x * s * (1 - s);
    return {g * gate * s + beta * slope, g * x * s, x * slope};
  }
};

// For each row: y = x / sqrt(mean(x^2) + eps). The threads of `team` share a row.
struct RmsNorm {
  double eps;

  template <class Team, class T>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> y, RowOf<const T> x) const {
    using C = ComputeType<T>;
    const C squares = sum_over(team, x.length, [&](std::int64_t i) { return C(x[i]) * C(x[i]); });
    const C scale = 1 / std::sqrt(squares / C(x.length) + C(eps));
    team.each(x.length, [&](std::int64_t i) { y[i] = T(C(x[i]) * scale); });
  }
};

struct RmsNormGradient {
  double eps;

  template <class Team, class T>
  LOCKSTEP_HD void operator()(const Team& team, RowOf<T> dx, RowOf<const T> g, RowOf<const T> x) const {
    using C = ComputeType<T>;
    const TwoSums<C> sums = sum_over(team, x.length, [&](std::int64_t i) {
      return TwoSums<C>{C(x[i]) * C(x[i]), C(g[i]) * C(x[i])};
    });
    const C scale = 1 / std::sqrt(sums.first / C(x.length) + C(eps));
    const C back = sums.second / C(x.length) * scale * scale;
    team.each(x.length, [&](std::int64_t i) { dx[i] = T((C(g[i]) - C(x[i]) * back) * scale); });
  }
};

}  // namespace

// The inputs broadcast: beta may be a scalar.
Tensor swiglu(const Tensor& x, const Tensor& gate, const Tensor& beta) {
  return extend::elementwise("swiglu", Swiglu(), x, gate, beta);
}

Tensor composed_rms_norm(const Tensor& x, double eps) { return x / sqrt(mean(x * x, {-1}, true) + eps); }

Tensor rms_norm_rows(const Tensor& x, double eps = 1e-6) {
  const Tensor y = extend::map_rows("rms_norm_rows", RmsNorm{eps}, {}, x);
  return custom_gradient("rms_norm_rows", y, {x}, [eps, saved = autograd::Saved(x)](const Tensor& g) {
    const Tensor in = saved.get();
    if (!grad_enabled())
      return std::vector{extend::map_rows("rms_norm_rows_gradient", RmsNormGradient{eps}, {}, g, in)};
    // For gradients of gradients: the same formula, by operations that have gradients themselves.
    const Tensor scale = 1 / sqrt(mean(in * in, {-1}, true) + eps);
    return std::vector{(g - in * (mean(g * in, {-1}, true) * scale * scale)) * scale};
  });
}

struct Net : nn::Module<Net> {
  nn::Linear in{2, 64}, gate{2, 64}, out{64, 1};
  nn::Parameter beta{ones({})};
  auto members() { return nn::members("in", in, "gate", gate, "out", out, "beta", beta); }
  Tensor forward(const Tensor& x) { return out(rms_norm_rows(swiglu(in(x), gate(x), beta))); }
};

// The largest absolute difference of elements.
double difference(const Tensor& a, const Tensor& b) { return max(abs(a.cpu() - b.cpu())).item<double>(); }

int main(int argc, char** argv) {
  try {
    const auto simulated = simulated_if_asked(argc, argv);
    manual_seed(1);

    // Compares the kernels with operations of the library, and their gradients with finite differences.
    const Tensor x = randn({64, 300}), gate = randn({64, 300}), beta = tensor(1.5);
    std::vector<Device> devices = {"cpu"};
    for (const Device& device : try_all_gpus()) devices.push_back(device);
    for (const Device& device : devices) {
      const Tensor y = swiglu(x.to(device), gate.to(device), beta.to(device));
      const Tensor z = rms_norm_rows(x.to(device));
      const bool right =
          difference(y, x * sigmoid(beta * x) * gate) < 1e-5 && difference(z, composed_rms_norm(x, 1e-6)) < 1e-5;
      print("on {}: {}\n", device, right ? "as composed" : "WRONG");
      const TensorOptions exact = {.dtype = kFloat64, .device = device};
      const std::vector<Tensor> inputs = {randn({3, 5}, exact), randn({3, 5}, exact), randn({5}, exact)};
      const auto all = [](const std::vector<Tensor>& in) { return rms_norm_rows(swiglu(in[0], in[1], in[2])); };
      gradcheck(all, inputs);
      gradgradcheck(all, inputs);
    }
    print("gradients, and gradients of gradients, are those of the functions\n");

    manual_seed(2);
    DataParallel model(Net{});
    optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
    const Tensor input = 2 * rand({512, 2}) - 1;
    const Tensor target = (sin(3 * input.narrow(1, 0, 1)) * input.narrow(1, 1, 1)).to(model.device());
    double first = 0, last = 0;
    for (int step = 0; step < 200; ++step) {
      optimizer.zero_grad();
      const Tensor loss = nn::mse_loss(model(input), target);
      loss.backward();
      optimizer.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    print("loss {} -> {}, beta {}\n", first, last, model.module().beta.item<double>());
  } catch (const std::exception& error) {
    std::cerr << "custom_op: " << error.what() << '\n';
    return 1;
  }
}
