// CUDA graphs: captures the work of streams as one graph over all cards, launched by one call.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "backends/cuda/call.h"
#include "backends/cuda/cuda_stream.h"
#include "core/ranked_mutex.h"
#include "runtime/graphs.h"

namespace lockstep::gpu {

using QuestionMutex = RankedMutex<LockRank::cuda_questions>;

class CudaGraphs final : public Graphs {
 public:
  /// `issue_mutex` is held while a graph is instantiated or launched, because the graph may contain collectives.
  explicit CudaGraphs(IssueMutex& issue_mutex) : issue_mutex_(issue_mutex) {}

  void begin_capture(StreamHandle origin) override;
  bool is_capturing(StreamHandle stream) override;
  GraphHandle end_capture(StreamHandle origin) override;
  void abandon_capture(StreamHandle origin) noexcept override;
  void launch(StreamHandle origin, GraphHandle graph) override;
  void destroy(GraphHandle graph) noexcept override;

  // For the backend: CUDA invalidates a capture if one of its streams or events is queried.
  bool is_active() const noexcept { return is_active_.load(std::memory_order_acquire); }
  /// While it is held, no stream begins to be captured. Held while CUDA is asked about a stream.
  std::unique_lock<QuestionMutex> hold_off() { return std::unique_lock(question_mutex_); }
  /// True if the stream's work has ended; nothing if the stream is being captured. Throws as has_ended() does.
  std::optional<bool> ask(const CudaStream& stream);
  using Graphs::refuse;
  static void refuse(std::string_view what, const CudaEvent& event);  ///< Throws if the event is_captured.

 private:
  IssueMutex& issue_mutex_;
  QuestionMutex question_mutex_;
  std::atomic<bool> is_active_ = false;
};

}  // namespace lockstep::gpu
