#include "cpu/convolution/convolution_plan.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/channels_last.h"
#include "core/ranked_mutex.h"
#include "cpu/fused_dispatch.h"
#include "cpu/onednn.h"

namespace lockstep::host {
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

constexpr std::size_t kMaxPlans = 1024;

// Rounds up to 64 bytes, so that the next part is aligned as well.
std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The operands of a convolution; for a gradient, those of the convolution whose gradient is computed.
struct Convolution {
  FusedOperand x, weight, bias, y;
};

Convolution convolution_of(const FusedOp& op) {
  const auto& o = op.operands;
  switch (op.kind) {
    case FusedKind::convolution: return {o[0], o[1], o[2], o[3]};
    case FusedKind::convolution_input_gradient: return {o[2], o[1], {}, o[0]};
    default: return {o[0], o[2], {}, o[1]};
  }
}

// Returns true if this file has a plan for the operands: float32, channels-last images, row-major weights.
bool is_ours(const FusedOp& op, const Convolution& c) {
  const int rank = c.x.sizes.rank();
  if (rank < 3 || rank > 5) return false;
  for (const FusedOperand* operand : {&c.x, &c.weight, &c.y})
    if (operand->dtype != kFloat32 || operand->sizes.elements() == 0) return false;
  if (!is_dense_channels_last(c.x.sizes, c.x.strides) || !is_dense_channels_last(c.y.sizes, c.y.strides)) return false;
  if (!is_row_major(c.weight) || (c.bias.present && !is_row_major(c.bias))) return false;
  for (int d = 0; d < rank - 2; ++d) {  // declines shapes that need more padding behind the image than before it
    const std::int64_t reach = op.dilation[d] * (c.weight.sizes[d + 2] - 1) + 1;
    const std::int64_t room = c.x.sizes[d + 2] + 2 * op.padding[d] - reach;
    if (room < 0 || room / op.stride[d] + 1 != c.y.sizes[d + 2]) return false;
  }
  return true;
}

Dims dims_of(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

Desc images(const Shape& sizes, std::int64_t count) {
  Shape some = sizes;
  some[0] = count;
  return Desc(dims_of(some), dnnl::memory::data_type::f32, dims_of(channels_last_strides(some)));
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Dims weight_dims(const Shape& sizes, std::int64_t groups) {
  Dims dims = dims_of(sizes);
  if (groups == 1) return dims;
  dims[0] /= groups;
  dims.insert(dims.begin(), groups);
  return dims;
}

template <class Primitive>
ConvolutionPiece piece_of(const typename Primitive::primitive_desc& description, const Desc& weight) {
  ConvolutionPiece piece;
  piece.primitive = Primitive(description);
  piece.weight = weight;
  piece.scratch_bytes = in_lines(description.scratchpad_desc().get_size());
  return piece;
}

ConvolutionPiece make_piece(const FusedOp& op, const Convolution& c, std::int64_t images_of_piece) {
  using dnnl::algorithm;
  const Desc x = images(c.x.sizes, images_of_piece), y = images(c.y.sizes, images_of_piece);
  const Desc weight(weight_dims(c.weight.sizes, op.groups), dnnl::memory::data_type::f32,
                    dnnl::memory::format_tag::any);
  const Desc bias =
      c.bias.present ? Desc(dims_of(c.bias.sizes), dnnl::memory::data_type::f32, dnnl::memory::format_tag::a) : Desc();
  Dims dilation = dims_of(op.dilation);
  for (auto& number : dilation) --number;  // oneDNN counts the elements in between
  const Dims stride = dims_of(op.stride), padding = dims_of(op.padding);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto forward =
      describe<dnnl::convolution_forward>(attributes, dnnl::prop_kind::forward_training, algorithm::convolution_direct,
                                          x, weight, bias, y, stride, dilation, padding, padding);
  ConvolutionPiece piece;
  if (op.kind == FusedKind::convolution) {
    piece = piece_of<dnnl::convolution_forward>(forward, forward.weights_desc());
  } else if (op.kind == FusedKind::convolution_input_gradient) {
    const auto backward = describe_gradient<dnnl::convolution_backward_data>(
        forward, attributes, algorithm::convolution_direct, x, weight, y, stride, dilation, padding, padding);
    piece = piece_of<dnnl::convolution_backward_data>(backward, backward.weights_desc());
  } else {
    const auto backward = describe_gradient<dnnl::convolution_backward_weights>(
        forward, attributes, algorithm::convolution_direct, x, weight, y, stride, dilation, padding, padding);
    piece = piece_of<dnnl::convolution_backward_weights>(backward, backward.diff_weights_desc());
  }
  piece.x = x;
  piece.y = y;
  piece.bias = bias;
  return piece;
}

// Returns the number of pieces into which the batch is divided. Each piece has enough work for a task, and enough
// pixels to outweigh the cost of reading its weights or adding their gradients.
std::int64_t pieces_of(const FusedOp& op, const Convolution& c) {
  constexpr std::int64_t kWork = std::int64_t(1) << 24, kMaxPieces = 64;
  const std::int64_t batch = c.x.sizes[0], pixels = c.y.sizes.elements() / (batch * c.y.sizes[1]);
  const std::int64_t least_pixels = op.kind == FusedKind::convolution_weight_gradient ? 1024 : 256;
  const std::int64_t work = std::max<std::int64_t>(1, pixels * c.weight.sizes.elements());  // per image
  const std::int64_t least = std::max((kWork + work - 1) / work, (least_pixels + pixels - 1) / pixels);
  return std::clamp<std::int64_t>(batch / least, 1, kMaxPieces);
}

// True for weight gradients for which oneDNN's jit:avx512_core sums over the wrong planes: several windows begin in the
// padding before the first plane, and no window lies inside the image. (Version 2.6.3; found by
// tests/ops/convolution_grid_test.cpp.)
bool miscounts_planes(const FusedOp& op, const Convolution& c) {
  if (op.kind != FusedKind::convolution_weight_gradient || c.x.sizes.rank() != 5) return false;
  const std::int64_t stride = op.stride[0], padding = op.padding[0];
  if (stride == 1 || padding <= stride) return false;
  const std::int64_t first = (padding + stride - 1) / stride;  // the first window that begins inside the image
  const std::int64_t end = first * stride - padding + op.dilation[0] * (c.weight.sizes[2] - 1) + 1;
  return first >= c.y.sizes[2] || end > c.x.sizes[2];
}

// Returns true if the window is one element.
bool is_pointwise(const Convolution& c) {
  return std::all_of(c.weight.sizes.begin() + 2, c.weight.sizes.end(), [](std::int64_t size) { return size == 1; });
}

std::shared_ptr<const ConvolutionPlan> make_plan(const FusedOp& op) {
  const Convolution c = convolution_of(op);
  if (!is_ours(op, c) || miscounts_planes(op, c)) return nullptr;
  const OneOpenMpThread one;
  try {
    auto plan = std::make_shared<ConvolutionPlan>();
    plan->batch = c.x.sizes[0];
    plan->pieces = pieces_of(op, c);
    plan->x_image = c.x.sizes.elements() / plan->batch;
    plan->y_image = c.y.sizes.elements() / plan->batch;
    const Dims dims = weight_dims(c.weight.sizes, op.groups);
    plan->weight = Desc(dims, dnnl::memory::data_type::f32, row_major_strides(dims));
    if (op.kind == FusedKind::convolution_weight_gradient && is_pointwise(c)) {
      plan->product.emplace(c.x.sizes, c.y.sizes, op);
      plan->smaller.weight = plan->weight;
      plan->smaller.scratch_bytes = in_lines(std::size_t(plan->product->scratch_elements()) * sizeof(float));
      plan->larger = plan->smaller;
      return plan;
    }
    plan->smaller = make_piece(op, c, plan->batch / plan->pieces);
    plan->larger = plan->batch % plan->pieces ? make_piece(op, c, plan->batch / plan->pieces + 1) : plan->smaller;
    if (plan->smaller.weight != plan->larger.weight) return nullptr;  // pieces must share one copy of the weight
    plan->reorders = plan->weight != plan->smaller.weight;
    if (plan->reorders) {
      const bool back = op.kind == FusedKind::convolution_weight_gradient;
      const Desc& from = back ? plan->smaller.weight : plan->weight;
      const Desc& to = back ? plan->weight : plan->smaller.weight;
      plan->to_weight = dnnl::reorder(dnnl::reorder::primitive_desc(cpu_engine(), from, cpu_engine(), to));
    }
    return plan;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

// Everything that a plan depends on.
std::vector<std::int64_t> key_of(const FusedOp& op) {
  std::vector<std::int64_t> key = {std::int64_t(op.kind), op.groups};
  const auto append = [&key](const Shape& shape) {
    key.push_back(shape.rank());
    key.insert(key.end(), shape.begin(), shape.end());
  };
  for (const Shape* numbers : {&op.stride, &op.padding, &op.dilation}) append(*numbers);
  for (int i = 0; i < 4; ++i) {
    const FusedOperand& operand = op.operands[std::size_t(i)];
    key.push_back(operand.present ? std::int64_t(operand.dtype) : -1);
    if (!operand.present) continue;
    append(operand.sizes);
    append(operand.strides);
  }
  return key;
}

}  // namespace

ConvolutionParts ConvolutionPlan::parts(FusedKind kind) const {
  const bool gradient = kind == FusedKind::convolution_weight_gradient;
  const std::int64_t weights = gradient ? (reorders || pieces > 1 ? pieces : 0) : reorders;
  return {pieces, std::max(smaller.scratch_bytes, larger.scratch_bytes), weights, in_lines(smaller.weight.get_size())};
}

std::shared_ptr<const ConvolutionPlan> convolution_plan(const FusedOp& op) {
  static RankedMutex<LockRank::host_library> mutex;
  static auto& plans = *new std::map<std::vector<std::int64_t>, std::shared_ptr<const ConvolutionPlan>>;
  std::vector<std::int64_t> key = key_of(op);
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = plans.find(key); found != plans.end()) return found->second;
  }
  auto plan = make_plan(op);  // without the lock, because it takes long
  const std::scoped_lock lock(mutex);
  if (plans.size() >= kMaxPlans) plans.clear();
  return plans.try_emplace(std::move(key), std::move(plan)).first->second;
}

}  // namespace lockstep::host
