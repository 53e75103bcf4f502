#include <lockstep/ops/arithmetic.h>
#include <lockstep/ops/index.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep {

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  const int d = wrap_dim("index_add", dim, impl_of("index_add", x).sizes.rank());
  const Shape& places = impl_of("index_add", index).sizes;
  Shape expected = x.sizes();
  if (places.rank() == 1 && !expected.empty()) expected[d] = places[0];
  if (places.rank() != 1 || expected.empty() || impl_of("index_add", source).sizes != expected)
    throw ShapeError(text("[index_add] expected an index [n], and a source of x's sizes with n along dimension ", d,
                          ", got ", places, " and ", source.sizes(), " for x ", x.sizes()));
  Shape along = Shape::filled(x.dim(), 1);
  along[d] = places[0];
  return scatter_add(x, d, index.view(along).expand(expected), alpha == 1 ? source : source * alpha);
}

}  // namespace lockstep
