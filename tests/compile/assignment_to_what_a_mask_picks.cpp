// refused: const lockstep::Tensor
// refused: no viable overloaded '='
// Indexing with a mask returns a copy: use index_put_ to write.
#include <lockstep/lockstep.h>

void write(const lockstep::Tensor& x, const lockstep::Tensor& mask) { x.index({mask}) = 5; }
