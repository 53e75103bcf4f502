#include "optim/cases.h"

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/optim/adadelta.h>
#include <lockstep/optim/adagrad.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/adamax.h>
#include <lockstep/optim/nadam.h>
#include <lockstep/optim/radam.h>
#include <lockstep/optim/rmsprop.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/creation.h>

#include "optim/replicas.h"
#include "support/replicas.h"

namespace lockstep::testing {
namespace {

using Gradients = std::vector<double>;

double naive(const optim::SGDOptions& o, double p, const Gradients& gradients) {
  double buffer = 0;
  bool first = true;
  for (double g : gradients) {
    if (o.maximize) g = -g;
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      buffer = first ? g : o.momentum * buffer + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * buffer : buffer;
    }
    p -= o.lr * g;
    first = false;
  }
  return p;
}

template <bool kDecoupled>
double naive(const optim::BasicAdamOptions<kDecoupled>& o, double p, const Gradients& gradients) {
  const auto [b1, b2] = o.betas;
  double m = 0, v = 0, most = 0;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.maximize) g = -g;
    if (kDecoupled)
      p -= o.lr * o.weight_decay * p;
    else
      g += o.weight_decay * p;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    most = std::max(most, v);
    const double m_hat = m / (1 - std::pow(b1, t)), v_hat = (o.amsgrad ? most : v) / (1 - std::pow(b2, t));
    p -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
  return p;
}

double naive(const optim::RMSpropOptions& o, double p, const Gradients& gradients) {
  double v = 0, mean = 0, buffer = 0;
  for (double g : gradients) {
    if (o.maximize) g = -g;
    g += o.weight_decay * p;
    v = o.alpha * v + (1 - o.alpha) * g * g;
    mean = o.alpha * mean + (1 - o.alpha) * g;
    const double variance = o.centered ? v - mean * mean : v;
    buffer = o.momentum * buffer + g / (std::sqrt(variance) + o.eps);
    p -= o.lr * buffer;
  }
  return p;
}

double naive(const optim::AdagradOptions& o, double p, const Gradients& gradients) {
  double sum = o.initial_accumulator_value;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.maximize) g = -g;
    g += o.weight_decay * p;
    sum += g * g;
    p -= o.lr / (1 + (t - 1) * o.lr_decay) * g / (std::sqrt(sum) + o.eps);
  }
  return p;
}

double naive(const optim::AdadeltaOptions& o, double p, const Gradients& gradients) {
  double v = 0, u = 0;
  for (double g : gradients) {
    if (o.maximize) g = -g;
    g += o.weight_decay * p;
    v = o.rho * v + (1 - o.rho) * g * g;
    const double delta = std::sqrt(u + o.eps) / std::sqrt(v + o.eps) * g;
    u = o.rho * u + (1 - o.rho) * delta * delta;
    p -= o.lr * delta;
  }
  return p;
}

double naive(const optim::AdamaxOptions& o, double p, const Gradients& gradients) {
  const auto [b1, b2] = o.betas;
  double m = 0, u = 0;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.maximize) g = -g;
    g += o.weight_decay * p;
    m = b1 * m + (1 - b1) * g;
    u = std::max(b2 * u, std::abs(g) + o.eps);
    p -= o.lr * m / ((1 - std::pow(b1, t)) * u);
  }
  return p;
}

double naive(const optim::NAdamOptions& o, double p, const Gradients& gradients) {
  const auto [b1, b2] = o.betas;
  const auto mu = [&](int t) { return o.betas[0] * (1 - 0.5 * std::pow(0.96, t * o.momentum_decay)); };
  double m = 0, v = 0, product = 1;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.maximize) g = -g;
    if (o.decoupled_weight_decay)
      p -= o.lr * o.weight_decay * p;
    else
      g += o.weight_decay * p;
    product = float(product) * float(mu(t));
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = mu(t + 1) * m / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product);
    const double v_hat = v / (1 - std::pow(b2, t));
    p -= o.lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
  return p;
}

double naive(const optim::RAdamOptions& o, double p, const Gradients& gradients) {
  const auto [b1, b2] = o.betas;
  const double limit = 2 / (1 - b2) - 1;
  double m = 0, v = 0;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.maximize) g = -g;
    if (o.decoupled_weight_decay)
      p -= o.lr * o.weight_decay * p;
    else
      g += o.weight_decay * p;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double rho = limit - 2 * t * std::pow(b2, t) / (1 - std::pow(b2, t));
    double step = m / (1 - std::pow(b1, t));
    if (rho > 5)
      step *= std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) *
              std::sqrt(1 - std::pow(b2, t)) / (std::sqrt(v) + o.eps);
    p -= o.lr * step;
  }
  return p;
}

template <class O, class Options>
OptimizerCase entry(std::string name, const Options& options) {
  return {std::move(name), [options](const std::vector<Tensor>& p) { return std::make_unique<O>(p, options); },
          [options](double p, const Gradients& gradients) { return naive(options, p, gradients); }};
}

auto sgd(const char* name, const optim::SGDOptions& o) { return entry<optim::SGD>(name, o); }
auto adam(const char* name, const optim::AdamOptions& o) { return entry<optim::Adam>(name, o); }
auto adamw(const char* name, const optim::AdamWOptions& o) { return entry<optim::AdamW>(name, o); }
auto rmsprop(const char* name, const optim::RMSpropOptions& o) { return entry<optim::RMSprop>(name, o); }
auto adagrad(const char* name, const optim::AdagradOptions& o) { return entry<optim::Adagrad>(name, o); }
auto adadelta(const char* name, const optim::AdadeltaOptions& o) { return entry<optim::Adadelta>(name, o); }
auto adamax(const char* name, const optim::AdamaxOptions& o) { return entry<optim::Adamax>(name, o); }
auto nadam(const char* name, const optim::NAdamOptions& o) { return entry<optim::NAdam>(name, o); }
auto radam(const char* name, const optim::RAdamOptions& o) { return entry<optim::RAdam>(name, o); }

// Two neighbours in one array, a size that is no multiple of a vector, a large one, and an empty one.
const std::vector<Shape> kShapes = {{5, 7}, {13}, {3}, {90, 401}, {0, 4}, {}};

Tensor make_parameter(const Tensor& values) {
  Tensor parameter = values.detach();
  return parameter.requires_grad_();
}

constexpr int kStart = -1;  // in place of a step

// The initial value of a parameter, or its gradient at a step. Computed and converted once, so that all optimizers get
// the same.
const Tensor& on_host(std::size_t parameter, const Shape& sizes, int step, DType dtype) {
  static std::map<std::tuple<std::size_t, int, DType>, Tensor> known;
  Tensor& tensor = known[{parameter, step, dtype}];
  if (tensor.defined() && tensor.sizes() == sizes) return tensor;
  std::vector<double> values(std::size_t(sizes.elements()));
  for (std::size_t e = 0; e < values.size(); ++e)
    values[e] =
        step == kStart ? std::cos(double(e) + 3 * double(parameter)) : some_gradient(parameter, std::int64_t(e), step);
  tensor = from_host(values.data(), values.size(), kFloat64, sizes, {.dtype = dtype});
  return tensor;
}

Tensor copy_on(Device device, const Tensor& host) { return device.is_cpu() ? host.clone() : host.to(device); }

}  // namespace

const std::vector<OptimizerCase>& optimizer_cases() {
  static const std::vector<OptimizerCase> cases = {
      sgd("SGD", {.lr = 0.1}),
      sgd("SGD weight decay, maximize", {.lr = 0.1, .weight_decay = 0.02, .maximize = true}),
      sgd("SGD momentum", {.lr = 0.1, .momentum = 0.9}),
      sgd("SGD momentum, dampening, weight decay, maximize",
          {.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.02, .maximize = true}),
      sgd("SGD nesterov", {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.02, .nesterov = true}),
      adam("Adam", {.lr = 0.05}),
      adam("Adam betas, eps, weight decay, amsgrad, maximize",
           {.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = true, .maximize = true}),
      adamw("AdamW", {.lr = 0.05, .weight_decay = 0.1}),
      adamw("AdamW amsgrad, maximize", {.lr = 0.05, .betas = {0.5, 0.6}, .amsgrad = true, .maximize = true}),
      rmsprop("RMSprop", {.lr = 0.01}),
      rmsprop("RMSprop alpha, eps, weight decay, maximize",
              {.lr = 0.01, .alpha = 0.7, .eps = 1e-4, .weight_decay = 0.1, .maximize = true}),
      rmsprop("RMSprop momentum", {.lr = 0.01, .momentum = 0.9}),
      rmsprop("RMSprop centered", {.lr = 0.01, .eps = 1e-2, .centered = true}),
      rmsprop("RMSprop centered, momentum",
              {.lr = 0.01, .eps = 1e-2, .weight_decay = 0.1, .momentum = 0.5, .centered = true}),
      adagrad("Adagrad", {.lr = 0.1}),
      adagrad("Adagrad lr decay, initial value, weight decay, maximize", {.lr = 0.1,
                                                                          .lr_decay = 0.1,
                                                                          .weight_decay = 0.1,
                                                                          .initial_accumulator_value = 0.5,
                                                                          .eps = 1e-4,
                                                                          .maximize = true}),
      adadelta("Adadelta", {}),
      adadelta("Adadelta rho, weight decay, maximize",
               {.lr = 0.5, .rho = 0.7, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}),
      adamax("Adamax", {.lr = 0.02}),
      adamax("Adamax betas, weight decay, maximize",
             {.lr = 0.02, .betas = {0.7, 0.8}, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}),
      nadam("NAdam", {.lr = 0.02}),
      nadam("NAdam momentum decay, weight decay, maximize",
            {.lr = 0.02, .betas = {0.8, 0.9}, .weight_decay = 0.1, .momentum_decay = 0.1, .maximize = true}),
      nadam("NAdam decoupled weight decay", {.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true}),
      radam("RAdam", {.lr = 0.02}),
      radam("RAdam betas, eps, weight decay, maximize",
            {.lr = 0.02, .betas = {0.7, 0.6}, .eps = 1e-3, .weight_decay = 0.1, .maximize = true}),
      radam("RAdam decoupled weight decay", {.lr = 0.02, .weight_decay = 0.1, .decoupled_weight_decay = true}),
  };
  return cases;
}

double some_gradient(std::size_t parameter, std::int64_t element, int step) {
  return std::sin(double(parameter) * 1.7 + double(element) * 0.37 + step * 0.9) + 0.2;
}

std::vector<Tensor> make_parameters(const std::vector<Device>& devices, DType dtype) {
  const NoGrad guard;
  std::vector<std::vector<Tensor>> all;  // by device
  for (const Device& device : devices) {
    std::vector<Tensor>& here = all.emplace_back();
    const TensorOptions options{.dtype = dtype, .device = device};
    // Only on the first device the first two parameters are adjacent in memory: bits must not depend on it.
    const bool together = device == devices.front();
    const Tensor array = empty({35 + 13}, options);
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const Tensor source = copy_on(device, on_host(i, kShapes[i], kStart, dtype));
      if (together && i < 2) {
        Tensor part = array.narrow(0, i == 0 ? 0 : 35, kShapes[i].elements()).view(kShapes[i]);
        here.push_back(make_parameter(part.copy_(source)));
      } else {
        here.push_back(make_parameter(source));
      }
    }
  }
  for (std::size_t i = 0; i < all[0].size() && all.size() > 1; ++i) {
    std::vector<Tensor> others;
    for (std::size_t d = 1; d < all.size(); ++d) others.push_back(all[d][i]);
    testing::LooseReplicas::attach(all[0][i], others);
  }
  return all[0];
}

void set_gradients(const std::vector<Tensor>& parameters, int step) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (std::size_t k = 0; k < optim::replica_count(parameters[i]); ++k) {
      Tensor there = optim::replica(parameters[i], k);
      there.set_grad(copy_on(there.device(), on_host(i, there.sizes(), step, there.dtype())));
    }
}

std::vector<double> values_in(const Tensor& parameter, std::size_t place) {
  return optim::replica(parameter, place).detach().cpu().to(kFloat64).to_vector<double>();
}

}  // namespace lockstep::testing
