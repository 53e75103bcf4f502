// The order of the locks of the library. (Three mutexes have no rank, because no other lock is taken under them: those
// of print(), mpi::join() and core/lifetime.cpp.) A thread takes a lock only if it holds none of the same or a later
// rank, so there are no deadlocks. Debug and sanitizer builds check it (core/ranked_mutex.h).
//
// If a thread may hold lock A while it takes lock B, A comes before B. No thread waits for a job, a replica or another
// backward while it holds a lock (DeviceThread::wait_until).
#pragma once

#include <cstdint>

namespace lockstep {

enum class LockRank : std::uint8_t {
  // data: a thread that holds one of these locks calls no function of the layers below.
  loader_threads,  ///< The number of oneTBB threads, for the workers of all loaders.
  task_queue,      ///< The tasks of a loader's workers.
  prefetcher,      ///< The slots of prefetched batches.

  // parallel and autograd: under some of these, operations are recorded and enqueued.
  backward,          ///< One backward's ready queues, and the gradients that reached its nodes.
  gradient_buckets,  ///< Buckets and the parameters in them, between backwards.
  bucket_launch,     ///< The number of the next bucket to launch, and the buckets that the launcher thread has taken.
  replica_barrier,   ///< The replicas of a pass that have arrived.
  replica_group,     ///< Serializes use of the communicator of a group of replicas.
  accumulator,       ///< The gradient of a leaf, to which several backwards may add.
  view,              ///< The grad_fn of a view whose base has changed.
  gradient_edge,     ///< The leaves' grad accumulators.
  other_memory,      ///< The storages that have other memory while checkpointed functions run again.
  autocast,          ///< The casts of weights that an autocast region keeps.
  hook,              ///< The function of a hook, which may be removed while it is called.
  deferred_memory,   ///< What makes the values of a tensor that has no memory yet.
  transient_memory,  ///< Buffers for parameters and gradients that are divided between devices.
  bucket_buffers,    ///< Buffers for whole buckets of sharded gradients, which are whole only during a backward.
  ordered_commands,  ///< The commands that all processes execute in one order.
  replay_values,     ///< The values that the host sends to a captured step.
  generator,         ///< The process's sequence of random numbers.
  world,             ///< Serializes exchanges between all processes of a job on the host.

  // runtime.
  registry,        ///< The devices behind cuda:*.
  device_streams,  ///< The streams of a device.
  device_threads,  ///< The queues and reservations of all device threads, and which threads sleep.
  allocator,       ///< The blocks of a device's memory.
  pinned_blocks,   ///< Page-locked memory for tensors, and the copies that read it.
  graphs,          ///< The graph that is being captured, and the communicators that it uses.

  // The backend of CUDA.
  cuda_stream,         ///< Work that is being enqueued on a stream, and its workspace.
  cuda_fused,          ///< A device's cuDNN handle and plans.
  cuda_issue,          ///< Held while a collective's ranks are launched, and by calls that must not run in between.
  cuda_questions,      ///< Held while CUDA is asked whether work has ended, and while a capture begins.
  cuda_communicators,  ///< All communicators, and failures that were not reported to the host yet.
  nccl_communicator,   ///< A communicator's ranks.
  cuda_device,         ///< A device's streams and spare events.
  cuda_memory,         ///< The memory that a device has taken from its card.
  pinned_memory,       ///< Pinned buffers that are not in use.

  // The backend of simulated devices.
  sim_backend,       ///< Memory, clocks, faults, events, and the order in which tasks enter the streams.
  sim_communicator,  ///< The operations of a communicator that may still run.
  sim_collective,    ///< The ranks that have arrived at an operation.
  sim_staged_bytes,  ///< Bytes of host memory that a stream's tasks hold.
  sim_stream,        ///< The tasks of a stream, and its error.
  sim_async_error,   ///< The list of errors that will be thrown together with an error (AsyncError::join).

  transport,  ///< Messages between processes.

  // Taken last, under any other lock.
  trace,         ///< The trace that is recorded.
  trace_events,  ///< The events of a trace.
  host_library,  ///< oneDNN primitives, which are created once.
  thread_limit,  ///< The number of threads that the host computes with.
};

/// The enumerator's name.
const char* name_of(LockRank rank) noexcept;

}  // namespace lockstep
