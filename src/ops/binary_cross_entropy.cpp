#include <limits>

#include <lockstep/ops/activation.h>

#include "kernels/fail.h"
#include "ops/autocast.h"
#include "ops/loss.h"
#include "ops/reduced_dims.h"

namespace lockstep {
namespace {

using elementary::exp;
using elementary::log;
using elementary::log1p;
using std::abs;

struct BinaryCrossEntropy {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    return -(target * bounded_log(x) + (1 - target) * bounded_log(1 - x));
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& target) const {
    const T slope = x * (1 - x);
    return g * (x - target) / where(slope < ConstantOf<T>(1e-12), ConstantOf<T>(1e-12), slope);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T&) const {
    return g * (bounded_log(1 - x) - bounded_log(x));
  }
  template <class T>
  LOCKSTEP_HD static T bounded_log(const T& x) {
    const T value = log(x);
    return where(value < -100, -100, value);
  }
};
struct WithLogits {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T target) const {
    // Written so that no large numbers are subtracted: if |x| is large and x has the sign that its target asks for
    // (plus for target 1), only the logarithm remains.
    const T away = x > 0 ? 1 - target : target, size = abs(x);
    return (away == 0 ? T(0) : away * size) + log1p(exp(-size));
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& target) const {
    return g * (sigmoid(x) - target);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T&) const {
    return -g * x;
  }
};

// Finds an element outside of [0, 1], if there is one.
template <class C>
struct WorstProbability {
  using Accumulator = C;
  LOCKSTEP_HD C identity() const { return 0; }
  LOCKSTEP_HD C load(C x) const { return x; }
  LOCKSTEP_HD C combine(C a, C b) const { return ((a >= 0) & (a <= 1)) ? b : a; }
  LOCKSTEP_HD C finish(C a, std::int64_t) const { return a; }
};

struct NoProbability {
  const char* which;
  double got;
  void operator()() const {
    throw InvalidArgument(text("[binary_cross_entropy] expected ", which, " from 0 to 1, got ", got,
                               "; binary_cross_entropy_with_logits takes numbers of any size"));
  }
};

template <class C>
struct CheckProbability {
  const char* which;
  const C* worst;

  void operator()(const KernelContext&) const { item(0); }
  std::int64_t items() const { return 1; }
  LOCKSTEP_HD void item(std::int64_t) const {
    if (!(*worst >= 0 && *worst <= 1)) fail(NoProbability{which, double(*worst)});
  }
};

// Throws at once on the CPU; on other devices the stream gets the error.
void check_probabilities(const char* which, const Tensor& x) {
  if (x.numel() == 0) return;
  DeviceState& device = *x.impl()->storage->device;
  visit_floating("binary_cross_entropy", x.dtype(), [&]<class T>() {
    using C = ComputeType<T>;
    const Tensor worst = make_tensor(device, {}, kDTypeOf<C>);
    reduce<C, T>("binary_cross_entropy", WorstProbability<C>(), worst, x, all_of(x.dim()));
    const StreamHandle stream = current_stream_handle(device);
    const MemoryAccess access = {region_of(*worst.impl()), AccessKind::read};
    use_on(stream, worst);
    const OperationEnd end;
    const CheckProbability<C> kernel{which, reinterpret_cast<const C*>(worst.impl()->data())};
    device.backend.launch(stream, {"check_probabilities", 0, {&access, 1}}, in_all_forms(kernel));
  });
}

void check_weight(const char* op, const char* which, const Tensor& input, const Tensor& weight) {
  if (!weight.defined()) return;
  check_same_device(op, input, weight);
  if (broadcast(op, input.sizes(), weight.sizes()) != input.sizes())
    throw ShapeError(
        text("[", op, "] expected a ", which, " that broadcasts to ", input.sizes(), ", got ", weight.sizes()));
}

Tensor weighted(const Tensor& losses, const BinaryCrossEntropyOptions& options) {
  return reduced(options.weight.defined() ? losses * options.weight : losses, options.reduction);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options) {
  if (const auto cast = autocast::wide()) return binary_cross_entropy(cast(input), cast(target), options);
  constexpr const char* kOp = "binary_cross_entropy";
  check_weight(kOp, "weight", input, options.weight);
  if (options.pos_weight.defined())
    throw InvalidArgument("[binary_cross_entropy] pos_weight is only for binary_cross_entropy_with_logits");
  check_target(kOp, input, target);
  check_floating(kOp, input);
  const Tensor labels = is_floating(target.dtype()) ? target : target.to(input.dtype());
  check_probabilities("inputs", input);
  check_probabilities("targets", labels);
  return weighted(pointwise_loss(kOp, "BinaryCrossEntropy", input, labels, BinaryCrossEntropy()), options);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyOptions& options) {
  if (const auto cast = autocast::wide()) return binary_cross_entropy_with_logits(cast(input), cast(target), options);
  constexpr const char* kOp = "binary_cross_entropy_with_logits";
  check_weight(kOp, "weight", input, options.weight);
  check_weight(kOp, "pos_weight", input, options.pos_weight);
  if (!options.pos_weight.defined())
    return weighted(pointwise_loss(kOp, "BinaryCrossEntropyWithLogits", input, target, WithLogits()), options);
  check_target(kOp, input, target);
  check_floating(kOp, input);
  // The threshold for softplus. Above a finite threshold softplus would return x itself, which is inexact.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor positive = 1 + (options.pos_weight - 1) * target;
  return weighted((1 - target) * input + positive * softplus(-input, {.threshold = kInfinity}), options);
}

}  // namespace lockstep
