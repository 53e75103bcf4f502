// refused: const lockstep::Tensor
// refused: no viable overloaded '='
// What a mask picks is a copy: index_put_ writes.
#include <lockstep/lockstep.h>

void write(const lockstep::Tensor& x, const lockstep::Tensor& mask) { x.index({mask}) = 5; }
