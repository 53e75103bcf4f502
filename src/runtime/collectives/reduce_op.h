// The arithmetic of ReduceOp on elements, the same on the host and on GPUs.
#pragma once

#include <cstdint>
#include <type_traits>

#include <lockstep/core/dtype.h>
#include <lockstep/runtime/communicator.h>

#include "core/integers.h"

namespace lockstep::rank_reduction {

struct Sum {
  template <class A>
  LOCKSTEP_HD static A combine(A a, A b) {
    return A(a + b);
  }
};
// The larger element. NaN if one of the two is NaN.
struct Max {
  template <class A>
  LOCKSTEP_HD static A combine(A a, A b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class A>
  LOCKSTEP_HD static A combine(A a, A b) {
    return a < b || a != a ? a : b;
  }
};

/// The type in which T accumulates.
template <class T, class Op>
using Accumulator = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                       std::conditional_t<std::is_same_v<Op, Sum>, Wrapping<T>, T>>;

template <class T, class Visitor>
decltype(auto) visit_op(ReduceOp op, const Visitor& visitor) {
  switch (op) {
    case ReduceOp::max: return visitor.template operator()<T, Max>();
    case ReduceOp::min: return visitor.template operator()<T, Min>();
    default: return visitor.template operator()<T, Sum>();
  }
}

/// Calls visitor.operator()<T, Op>() for the elements' type and Sum, Max or Min. A mean is a Sum, to be divided.
template <class Visitor>
decltype(auto) visit(DType dtype, ReduceOp op, const Visitor& visitor) {
  switch (dtype) {
    case kBool:  // bytes of 0 or 1: their logical or is their maximum
      return visit_op<std::uint8_t>(op == ReduceOp::sum ? ReduceOp::max : op, visitor);
    case kUInt8: return visit_op<std::uint8_t>(op, visitor);
    case kInt32: return visit_op<std::int32_t>(op, visitor);
    case kInt64: return visit_op<std::int64_t>(op, visitor);
    case kFloat16: return visit_op<Half>(op, visitor);
    case kBFloat16: return visit_op<BFloat16>(op, visitor);
    case kFloat32: return visit_op<float>(op, visitor);
    default: return visit_op<double>(op, visitor);
  }
}

}  // namespace lockstep::rank_reduction
