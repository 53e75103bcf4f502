#include "cpu/products/bfloat16_product.h"

#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include <lockstep/core/instruction_set.h>

#include "core/ranked_mutex.h"
#include "cpu/onednn.h"
#include "cpu/parallel.h"

namespace lockstep::host {
namespace {

using MatrixDesc = dnnl::memory::desc;
using DnnlType = dnnl::memory::data_type;

constexpr std::int64_t kLeastMultiplications = std::int64_t(1) << 17;  // smaller products cost less than a oneDNN call
constexpr std::int64_t kDivided = std::int64_t(1) << 22;  // products of fewer multiplications are not divided
constexpr std::size_t kMaxProductPlans = 512;

bool processor_has_bfloat16() {
#ifdef __x86_64__
  static const bool has = instruction_set() == InstructionSet::avx512 && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

struct ProductPiece {
  dnnl::matmul primitive;
  MatrixDesc a, b, c, bias, scratch;
};

// The division of a product into pieces along its longer side. It depends on the shape alone, so the bits of the result
// do not depend on the number of threads.
struct ProductPlan {
  bool by_rows = true;
  std::int64_t size = 0, count = 1;  // rows or columns of a piece (the last piece may be smaller); number of pieces
  ProductPiece piece, last;

  const ProductPiece& at(std::int64_t index) const { return index == count - 1 ? last : piece; }
};

ProductPiece make_product_piece(const Matmul& p, std::int64_t m, std::int64_t n) {
  using Dims = dnnl::memory::dims;
  ProductPiece piece;
  piece.a = MatrixDesc({m, p.k}, DnnlType::bf16, p.transpose_a ? Dims{1, p.lda} : Dims{p.lda, 1});
  piece.b = MatrixDesc({p.k, n}, DnnlType::bf16, p.transpose_b ? Dims{1, p.ldb} : Dims{p.ldb, 1});
  const DnnlType output = p.float32_output ? DnnlType::f32 : DnnlType::bf16;
  piece.c = MatrixDesc({m, n}, output, Dims{p.ldc, 1});
  if (p.bias) piece.bias = MatrixDesc({1, n}, output, Dims{n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.beta != 0) {
    dnnl::post_ops after;
    after.append_sum(float(p.beta));
    attributes.set_post_ops(after);
  }
  const auto found = p.bias ? describe<dnnl::matmul>(attributes, piece.a, piece.b, piece.bias, piece.c)
                            : describe<dnnl::matmul>(attributes, piece.a, piece.b, piece.c);
  piece.scratch = found.scratchpad_desc();
  piece.primitive = dnnl::matmul(found);
  return piece;
}

std::shared_ptr<const ProductPlan> make_product_plan(const Matmul& p) {
  const OneOpenMpThread one;
  try {
    auto plan = std::make_shared<ProductPlan>();
    plan->by_rows = p.m >= p.n;
    const std::int64_t side = plan->by_rows ? p.m : p.n;
    plan->size = p.m * p.n * p.k < kDivided ? side : std::clamp<std::int64_t>((side / 4 + 31) / 32 * 32, 64, 512);
    plan->count = (side + plan->size - 1) / plan->size;
    const std::int64_t rest = side - (plan->count - 1) * plan->size;
    // oneDNN 3.7 assumes that a matrix of a single row or column is dense, whatever its stride. So such products are
    // declined.
    if (rest == 1 || (plan->by_rows ? p.n : p.m) == 1) return nullptr;
    const auto make = [&](std::int64_t size) {
      return make_product_piece(p, plan->by_rows ? size : p.m, plan->by_rows ? p.n : size);
    };
    plan->last = make(rest);
    plan->piece = rest == plan->size ? plan->last : make(plan->size);
    return plan;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

std::shared_ptr<const ProductPlan> product_plan(const Matmul& p) {
  using Key = std::array<std::int64_t, 10>;
  static RankedMutex<LockRank::host_library> mutex;
  static auto& plans = *new std::map<std::pair<Key, double>, std::shared_ptr<const ProductPlan>>;  // never destroyed
  const std::pair<Key, double> key = {
      {p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.transpose_a, p.transpose_b, p.bias != nullptr, p.float32_output}, p.beta};
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = plans.find(key); found != plans.end()) return found->second;
  }
  auto plan = make_product_plan(p);  // without the lock, because it takes long
  const std::scoped_lock lock(mutex);
  if (plans.size() >= kMaxProductPlans) plans.clear();
  return plans.try_emplace(key, std::move(plan)).first->second;
}

void run_bfloat16_piece(const Matmul& p, const ProductPlan& plan, std::int64_t item, std::int64_t index,
                        ScratchOf scratch_of) {
  const OneOpenMpThread one;
  const ProductPiece& piece = plan.at(index);
  const std::int64_t row = plan.by_rows ? index * plan.size : 0, column = plan.by_rows ? 0 : index * plan.size;
  const auto memory = [](const MatrixDesc& desc, const void* data, std::int64_t at, DType dtype = kBFloat16) {
    return dnnl::memory(desc, cpu_engine(),
                        static_cast<std::byte*>(const_cast<void*>(data)) + at * std::int64_t(size_of(dtype)));
  };
  const auto scratch = scratch_of(piece.scratch.get_size());
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, memory(piece.a, p.a, item * p.stride_a + row * (p.transpose_a ? 1 : p.lda))},
      {DNNL_ARG_WEIGHTS, memory(piece.b, p.b, item * p.stride_b + column * (p.transpose_b ? p.ldb : 1))},
      {DNNL_ARG_DST, memory(piece.c, p.c, item * p.stride_c + row * p.ldc + column, p.output())},
      {DNNL_ARG_SCRATCHPAD, dnnl::memory(piece.scratch, cpu_engine(), scratch.get())}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, memory(piece.bias, p.bias, column, p.output()));
  thread_local dnnl::stream stream(cpu_engine());
  piece.primitive.execute(stream, arguments);
}

}  // namespace

std::shared_ptr<std::byte[]> scratch_on_heap(std::size_t bytes) {
  return std::make_shared_for_overwrite<std::byte[]>(bytes);
}

bool bfloat16_product(const KernelContext& context, const Matmul& p, ScratchOf scratch_of) {
  const std::int64_t multiplications = p.m * p.n * p.k;
  if (!processor_has_bfloat16() || multiplications < kLeastMultiplications || p.alpha != 1 ||
      p.activation != Activation::none)
    return false;
  const auto plan = product_plan(p);
  if (!plan) return false;
  const std::int64_t grain = std::max<std::int64_t>(1, kDivided / 4 / (multiplications / plan->count + 1));
  parallel_for(context, p.batch * plan->count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_bfloat16_piece(p, *plan, i / plan->count, i % plan->count, scratch_of);
  });
  return true;
}

}  // namespace lockstep::host
