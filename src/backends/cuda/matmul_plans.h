// Matrix products of one stream by cuBLASLt: a handle, a workspace, and the plan for each kind of product. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "backends/cuda/call.h"
#include "backends/cuda/vendor_tables.h"
#include "runtime/backend.h"

namespace lockstep::gpu {

template <auto destroy>
using DestroyCublas = DestroyBy<cublas_lt, destroy>;

class MatmulPlans {
 public:
  /// `issue_mutex` is held while cuBLASLt is initialized, chooses an algorithm, or runs the first product of a kind,
  /// which loads kernels. Throws BackendError, also if cuBLASLt cannot be loaded.
  MatmulPlans(int device, bool tf32, IssueMutex& issue_mutex);
  ~MatmulPlans();

  /// Enqueues the product; the device's card must be current. Repeated runs give the same bits.
  void run(const Matmul& matmul, cudaStream_t stream);

  /// True if cuBLASLt has an algorithm for the product with its row_sums.
  bool has_row_sums(const Matmul& matmul);

 private:
  // A kind of product, for which one plan is made: a Matmul with the alignment of each pointer in place of the pointer.
  using Key = std::array<std::int64_t, 21>;
  struct Plan;
  Plan make(const Matmul& matmul, const Key& key) const;
  std::optional<Plan> try_make(const Matmul& matmul, const Key& key, cublasLtEpilogue_t epilogue) const;
  void run(const Matmul& matmul, const Plan& plan, cudaStream_t stream) const;
  static Key key_of(const Matmul& matmul);

  const int device_;
  const bool tf32_;
  IssueMutex& issue_mutex_;
  std::unique_ptr<cublasLtContext, DestroyCublas<&CublasLt::cublasLtDestroy>> handle_;
  OwnedMemory workspace_;
  std::map<Key, Plan> plans_;
  std::set<Key> without_row_sums_;  // kinds for which there is no such algorithm
};

}  // namespace lockstep::gpu
