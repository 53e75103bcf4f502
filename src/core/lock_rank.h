// The order of all locks of the library. A thread takes a lock only if it holds none of the same rank or of a later
// one: so no two threads can wait for each other. Debug and sanitizer builds check it (core/ranked_mutex.h).
//
// A lock that may be held while another is taken comes before it. Nobody waits for a job, a replica or another backward
// while holding any (DeviceThread::wait_until).
#pragma once

#include <cstdint>

namespace lockstep {

enum class LockRank : std::uint8_t {
  // data: nothing of the layers below is called under these.
  loader_threads,  ///< How many threads oneTBB may have, for the workers of all loaders.
  task_queue,      ///< The tasks of a loader's workers.
  prefetcher,      ///< Which batches are made.

  // parallel and autograd: under some of these, operations are recorded and enqueued.
  backward,          ///< What one backward has ready, and what reached its nodes.
  gradient_buckets,  ///< Buckets and the parameters in them, between backwards.
  bucket_launch,     ///< Which bucket is launched next, and whether a thread does.
  replica_barrier,   ///< Which replicas of a pass have arrived.
  replica_group,     ///< The communicator of a group of replicas, which one thread at a time may use.
  accumulator,       ///< The gradient of a leaf, to which several backwards may add.
  view,              ///< Which graph a view belongs to.
  gradient_edge,     ///< Which leaves have an accumulator.
  autocast,          ///< The casts of weights that an autocast region keeps.
  hook,              ///< The function of a hook, which may be removed while it is called.
  step_values,       ///< What the host gives a captured step.
  generator,         ///< The process's sequence of random numbers.
  world,             ///< What all processes of a job do together on the host.

  // runtime.
  registry,        ///< Which devices stand behind cuda:*.
  device_streams,  ///< The streams of a device.
  device_threads,  ///< The queues and reservations of all device threads, and who sleeps.
  allocator,       ///< The blocks of a device's memory.
  pinned_blocks,   ///< Page-locked memory for tensors, and the copies that read it.
  graphs,          ///< What is captured.

  // The backend of CUDA.
  cuda_stream,         ///< Work that is being enqueued on a stream, and its workspace.
  cuda_fused,          ///< What cuDNN was asked for on a device, and its handle.
  cuda_issuing,        ///< Collectives enter all streams in one order; what may wait for a card keeps out meanwhile.
  cuda_communicators,  ///< All communicators, and the failures that the host was not told of.
  nccl_communicator,   ///< A communicator's ranks.
  cuda_device,         ///< A device's streams and spare events.
  cuda_memory,         ///< How much of a card a device has taken.
  pinned_memory,       ///< Pinned buffers that are not in use.

  // The backend of simulated devices.
  sim_backend,       ///< Memory, clocks, faults, events, and the order in which tasks enter the streams.
  sim_communicator,  ///< The operations of a communicator that may not have ended.
  sim_collective,    ///< Which ranks have come to an operation.
  sim_taken_bytes,   ///< What a stream's tasks hold of the host's memory.
  sim_stream,        ///< The tasks of a stream, and its error.
  sim_async_error,   ///< What an error was joined with.

  transport,  ///< Messages between processes.

  // Taken last, from anywhere.
  trace,         ///< Which trace is recorded.
  trace_events,  ///< The events of a trace.
  host_library,  ///< A primitive of oneDNN that is made once.
  thread_limit,  ///< How many threads the host computes with.
};

/// As the enumerator.
const char* name_of(LockRank rank) noexcept;

}  // namespace lockstep
