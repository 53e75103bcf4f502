// Activations with two operands: glu, prelu, rrelu.
#include <lockstep/ops/activation.h>

#include "ops/batch_noise.h"
#include "ops/elementwise.h"

namespace lockstep {
namespace {

struct Glu {
  template <class T>
  LOCKSTEP_HD T operator()(T a, T b) const {
    return a * sigmoid(b);
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T&, const T& b) const {
    return g * sigmoid(b);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& a, const T& b) const {
    const T gate = sigmoid(b);
    return g * a * gate * (1 - gate);
  }
};
struct Prelu {
  template <class T>
  LOCKSTEP_HD T operator()(T x, T weight) const {
    return x > 0 ? x : weight * x;
  }
  template <class T>
  LOCKSTEP_HD T first(const T& g, const T& x, const T& weight) const {
    return where(x > 0, g, weight * g);
  }
  template <class T>
  LOCKSTEP_HD T second(const T& g, const T& x, const T&) const {
    return where(x > 0, 0, x * g);
  }
};

}  // namespace

Tensor glu(const Tensor& x, std::int64_t dim) {
  check_floating("glu", x);
  const int d = wrap_dim("glu", dim, x.dim());
  if (x.dim() == 0 || x.sizes()[d] % 2 != 0)
    throw ShapeError(text("[glu] expected an even size along dimension ", dim, ", got ", x.sizes()));
  const std::int64_t half = x.sizes()[d] / 2;
  return binary("glu", "Glu", x.narrow(d, 0, half), x.narrow(d, half, half), Glu());
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  check_floating("prelu", x);
  check_same_device("prelu", x, weight);
  const std::int64_t channels = x.dim() < 2 ? 1 : x.sizes()[1];
  if (weight.dim() > 1 || (weight.numel() != 1 && weight.numel() != channels))
    throw ShapeError(text("[prelu] expected a weight of shape [1] or ", Shape{channels}, " for x ", x.sizes(), ", got ",
                          weight.sizes()));
  if (weight.dtype() != x.dtype())
    throw DTypeError(text("[prelu] expected a weight of ", x.dtype(), ", got ", weight.dtype()));
  Shape sizes = Shape::filled(x.dim(), 1);
  if (weight.numel() != 1) sizes[1] = channels;
  return binary("prelu", "Prelu", x, weight.reshape(sizes), Prelu());
}

Tensor rrelu(const Tensor& x, const RreluOptions& options) {
  check_floating("rrelu", x);
  if (!(options.lower <= options.upper))
    throw InvalidArgument(text("[rrelu] expected lower <= upper, got ", options.lower, " and ", options.upper));
  if (!options.training) return leaky_relu(x, (options.lower + options.upper) / 2);
  return binary("rrelu", "Rrelu", x, uniform_for_batch("rrelu", x, options.lower, options.upper), Prelu());
}

}  // namespace lockstep
