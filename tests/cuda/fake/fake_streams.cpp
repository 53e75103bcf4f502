// The fake CUDA runtime's streams and events: work runs when the host asks for its result.
#include <algorithm>
#include <exception>
#include <utility>

#include "cuda/fake/fake_work.h"

namespace lockstep::fake {
namespace {

std::vector<cudaStream_t> streams;

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, std::function<bool()> ready) {
  const auto held = lock();
  if (std::ranges::find(streams, stream) == streams.end()) {
    complain("work for a stream that is gone");
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture) {
    if (ready) complain("work that a graph cannot wait for");
    return capture(std::span(&stream, 1), std::move(run));
  }
  if (state(stream->card) == cudaSuccess) stream->work.push_back({std::move(run), std::move(ready)});
  return state(stream->card);
}

void step() {
  const auto held = lock();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const cudaStream_t stream = streams[machine().earliest_first ? i : streams.size() - 1 - i];
    auto& work = stream->work;
    if (state(stream->card) != cudaSuccess || work.empty() || (work.front().ready && !work.front().ready())) continue;
    const auto run = std::move(work.front().run);
    work.pop_front();
    try {
      run();
    } catch (const std::exception& error) {
      machine().trapped.emplace(stream->card, error.what());
    }
    return;
  }
}

}  // namespace lockstep::fake

using namespace lockstep::fake;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  use_card();
  may_wait_for_cards("cudaStreamCreateWithPriority");
  const auto held = lock();
  *stream = new CUstream_st{current_card(), {}};
  streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto held = lock();
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  use_card();
  if (const auto at_question = machine().at_question) at_question();
  const auto held = lock();
  if (stream->capture)
    return invalidate(*stream->capture, "a question to a stream that captures", cudaErrorStreamCaptureUnsupported);
  if (state(stream->card) != cudaSuccess || stream->work.empty()) return state(stream->card);
  step();
  return cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cudaError_t result;
  while ((result = cudaStreamQuery(stream)) == cudaErrorNotReady) {
  }
  return result;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  use_card();
  const auto held = lock();
  if (event->capture) {
    if (event->capture->streams.empty()) return cudaErrorCapturedEvent;
    if (stream->capture && stream->capture != event->capture)
      return invalidate(*stream->capture, "a wait for another capture", cudaErrorStreamCaptureMerge);
    stream->capture = event->capture;
    stream->capture->streams.insert(stream);
    stream->last.insert(event->after.begin(), event->after.end());
    return cudaSuccess;
  }
  if (stream->capture)
    return invalidate(*stream->capture, "a wait for work that is not captured", cudaErrorStreamCaptureIsolation);
  return enqueue(
      stream, [] {}, [passed = event->passed] { return *passed; });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  use_card();
  const auto held = lock();
  if (!machine().events) return cudaErrorMemoryAllocation;
  if (state(current_card()) != cudaSuccess) return state(current_card());
  return *event = new CUevent_st{.card = current_card()}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto held = lock();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  use_card();
  const auto held = lock();
  if (event->card != stream->card) return cudaErrorInvalidResourceHandle;
  event->capture = stream->capture;
  event->after = stream->last;
  if (stream->capture) return cudaSuccess;
  if (state(stream->card) == cudaSuccess) event->passed = std::make_shared<bool>(false);
  return enqueue(stream, [passed = event->passed] { *passed = true; });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  use_card();
  const auto held = lock();
  if (event->capture) return invalidate(*event->capture, "a question to a captured event", cudaErrorInvalidValue);
  if (state(event->card) != cudaSuccess || *event->passed) return state(event->card);
  step();
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t result;
  while ((result = cudaEventQuery(event)) == cudaErrorNotReady) {
  }
  return result;
}

}  // extern "C"
