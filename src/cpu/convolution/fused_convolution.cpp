#include "cpu/convolution/fused_convolution.h"

#include <algorithm>

#include <lockstep/core/vectorized.h>

#include "cpu/convolution/convolution_plan.h"
#include "cpu/fused_dispatch.h"
#include "cpu/library_use.h"
#include "cpu/onednn.h"
#include "cpu/parallel.h"

namespace lockstep::host {
namespace {

dnnl::stream& this_threads_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

void reorder(const ConvolutionPlan& plan, const dnnl::memory::desc& from_desc, void* from,
             const dnnl::memory::desc& to_desc, void* to) {
  const OneOpenMpThread one;
  dnnl::memory source(from_desc, cpu_engine(), from), target(to_desc, cpu_engine(), to);
  plan.to_weight.execute(this_threads_stream(), {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}});
}

// One convolution or gradient by oneDNN. The batch is divided into pieces, and each piece runs on one of our threads.
struct Call {
  const ConvolutionPlan& plan;
  FusedKind kind;
  float *x, *weight, *bias, *y;  // weight: in the primitives' layout
  const ConvolutionRoom& room;

  void run(std::int64_t index) const {
    const OneOpenMpThread one;
    const ConvolutionPiece& piece = plan.piece(index);
    const std::int64_t image = plan.first_image(index);
    const bool weights = kind == FusedKind::convolution_weight_gradient;
    float* const piece_weight = weights ? weight + index * std::int64_t(room.weight_pitch / sizeof(float)) : weight;
    std::byte* const scratch = room.scratch + std::size_t(index) * room.scratch_pitch;
    if (plan.product)
      return plan.product->run(plan.first_image(index + 1) - image, x + image * plan.x_image, y + image * plan.y_image,
                               piece_weight, reinterpret_cast<float*>(scratch));
    const auto memory = [](const dnnl::memory::desc& desc, void* data) {
      return dnnl::memory(desc, cpu_engine(), data);
    };
    const bool data = kind == FusedKind::convolution_input_gradient;
    std::unordered_map<int, dnnl::memory> arguments = {
        {data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(piece.x, x + image * plan.x_image)},
        {weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, memory(piece.weight, piece_weight)},
        {data || weights ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, memory(piece.y, y + image * plan.y_image)},
        {DNNL_ARG_SCRATCHPAD, memory(dnnl::memory::desc({std::int64_t(piece.scratch_bytes)},
                                                        dnnl::memory::data_type::u8, dnnl::memory::format_tag::a),
                                     scratch)}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, memory(piece.bias, bias));
    piece.primitive.execute(this_threads_stream(), arguments);
  }
};

// Adds up the pieces' gradients, in the order of the pieces.
void add_pieces(const KernelContext& context, const ConvolutionPlan& plan, float* parts, std::size_t pitch_bytes) {
  const auto count = std::int64_t(plan.smaller.weight.get_size() / sizeof(float));
  const auto pitch = std::int64_t(pitch_bytes / sizeof(float));
  parallel_for(context, count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = 1; piece < plan.pieces; ++piece) {
      const float* part = parts + piece * pitch;
      LOCKSTEP_IVDEP
      for (std::int64_t i = begin; i < end; ++i) parts[i] += part[i];
    }
  });
}

void run_plan(const KernelContext& context, const FusedOp& op, const ConvolutionPlan& plan,
              const ConvolutionRoom& room) {
  const auto data = [&op](int i) { return static_cast<float*>(op.operands[std::size_t(i)].data); };
  auto* const weights = reinterpret_cast<float*>(room.weights);
  const bool forward = op.kind == FusedKind::convolution;
  const auto run = [&](const Call& call) {
    parallel_for(context, plan.pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) call.run(i);
    });
  };
  if (op.kind == FusedKind::convolution_weight_gradient) {
    float* const result = data(2);
    const bool direct = !plan.reorders && plan.pieces == 1;
    run({plan, op.kind, data(0), direct ? result : weights, nullptr, data(1), room});
    if (direct) return;
    add_pieces(context, plan, weights, room.weight_pitch);
    if (plan.reorders)
      reorder(plan, plan.smaller.weight, weights, plan.weight, result);
    else
      std::copy_n(weights, plan.weight.get_size() / sizeof(float), result);
    return;
  }
  float* weight = data(1);
  if (plan.reorders) {
    reorder(plan, plan.weight, weight, plan.smaller.weight, weights);
    weight = weights;
  }
  run({plan, op.kind, data(forward ? 0 : 2), weight, forward && op.operands[2].present ? data(2) : nullptr,
       data(forward ? 3 : 0), room});
}

}  // namespace

std::optional<ConvolutionParts> convolution_parts(const FusedOp& op) {
  const LibraryUse use;
  const auto plan = convolution_plan(op);
  return plan ? std::optional(plan->parts(op.kind)) : std::nullopt;
}

std::optional<std::size_t> convolution_workspace_size(const FusedOp& op) {
  const auto parts = convolution_parts(op);
  return parts ? std::optional(parts->bytes()) : std::nullopt;
}

void convolution(const KernelContext& context, const FusedOp& op, void* workspace) {
  const LibraryUse use;
  const auto plan = convolution_plan(op);
  const ConvolutionParts parts = plan->parts(op.kind);
  auto* const scratch = static_cast<std::byte*>(workspace);
  std::byte* const weights = scratch + parts.scratch_bytes * std::size_t(parts.pieces);
  run_plan(context, op, *plan, {scratch, weights, parts.scratch_bytes, parts.weight_bytes});
}

void run_convolution(const KernelContext& context, const FusedOp& op, const ConvolutionRoom& room) {
  const LibraryUse use;
  run_plan(context, op, *convolution_plan(op), room);
}

}  // namespace lockstep::host
