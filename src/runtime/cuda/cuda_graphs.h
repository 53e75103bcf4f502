// CUDA graphs: what streams capture, as one graph over all cards. Launching it is one call.
#pragma once

#include <atomic>

#include "runtime/cuda/call.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/graphs.h"

namespace lockstep::gpu {

class CudaGraphs final : public Graphs {
 public:
  /// `issuing` is held while a graph is made ready or launched: there may be collectives in it.
  explicit CudaGraphs(IssuingMutex& issuing) : issuing_(issuing) {}

  void begin_capture(StreamHandle origin) override;
  bool is_capturing(StreamHandle stream) override;
  GraphHandle end_capture(StreamHandle origin) override;
  void abandon_capture(StreamHandle origin) noexcept override;
  void launch(StreamHandle origin, GraphHandle graph) override;
  void destroy(GraphHandle graph) noexcept override;

  // For the backend: CUDA drops a capture whose streams or events are asked whether they have ended.
  bool is_active() const noexcept { return is_active_.load(std::memory_order_acquire); }
  void refuse(std::string_view what, StreamHandle stream);  ///< Throws InvalidArgument where it is captured.
  static void refuse(std::string_view what, const CudaEvent& event);

 private:
  IssuingMutex& issuing_;
  std::atomic<bool> is_active_ = false;
};

}  // namespace lockstep::gpu
