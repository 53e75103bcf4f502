#include <lockstep/core/error.h>
#include <lockstep/kernels/visit.h>

#include "core/text.h"

namespace lockstep {

void throw_not_floating(const char* op, DType dtype) {
  throw DTypeError(text("[", op, "] expected a floating dtype, got ", dtype));
}
void throw_not_numeric(const char* op) { throw DTypeError(text("[", op, "] expected a numeric dtype, got bool")); }

}  // namespace lockstep
