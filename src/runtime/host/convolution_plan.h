// What one description of a convolution needs: oneDNN's primitives for pieces of the batch, and how weights lie.
// Plans are made once for a description and kept. Safe from any thread.
#pragma once

#include <dnnl.hpp>

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/host/convolution.h"
#include "runtime/host/pixel_product.h"

namespace lockstep::host {

/// While one lives, this thread's calls of oneDNN use one thread: work is divided between our own workers. (Debian's
/// oneDNN uses OpenMP, whose number of threads is a setting of each calling thread.)
class OneOpenMpThread {
 public:
  OneOpenMpThread() noexcept;
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

/// The CPU, as oneDNN calls it.
const dnnl::engine& cpu_engine();

/// A convolution of some images of the batch.
struct ConvolutionPiece {
  dnnl::primitive primitive;
  dnnl::memory::desc x, weight, bias, y;  ///< As the primitive wants them; x and y may be gradients.
  std::size_t scratch_bytes = 0;
};

/// The batch is divided into `pieces` by its shape alone, so that results do not depend on the number of threads.
struct ConvolutionPlan {
  std::int64_t batch = 0, pieces = 1;
  std::int64_t x_image = 0, y_image = 0;  ///< Elements of an image.
  ConvolutionPiece smaller, larger;       ///< Of batch / pieces images, and of one more.
  dnnl::memory::desc weight;              ///< As the caller has it: row-major.
  dnnl::reorder to_weight;                ///< Between the two, where they differ.
  bool reorders = false;
  std::optional<PixelProduct> product;  ///< What the pieces are instead of primitives.

  std::int64_t first_image(std::int64_t piece) const { return piece * batch / pieces; }
  const ConvolutionPiece& piece(std::int64_t index) const {
    return first_image(index + 1) - first_image(index) == batch / pieces ? smaller : larger;
  }

  ConvolutionParts parts(FusedKind kind) const;
};

/// Null where oneDNN declines the operation, or would not be fast.
std::shared_ptr<const ConvolutionPlan> convolution_plan(const FusedOp& op);

}  // namespace lockstep::host
