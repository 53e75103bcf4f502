// oneDNN: its engine, its threads, and descriptors of primitives, made by the interface of oneDNN 2.x or of 3.x.
#pragma once

#include <dnnl.hpp>

#if DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP && DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
#error "Lockstep needs a oneDNN that is built with its OpenMP or its sequential CPU runtime (DNNL_CPU_RUNTIME)."
#endif

namespace lockstep::host {

/// In its scope, this thread's calls of oneDNN use one thread, because our own workers divide the work. (In OpenMP each
/// calling thread has its own setting for the number of threads.) Primitives are made and executed in such a scope,
/// because they may be laid out for the number of threads.
class OneOpenMpThread {
 public:
  OneOpenMpThread() noexcept;
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_;
};

/// oneDNN's engine for the CPU.
const dnnl::engine& cpu_engine();

/// Returns the descriptor of a primitive. Throws dnnl::error if oneDNN has no implementation.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu_engine(), arguments..., attributes};
#else
  return {typename Primitive::desc(arguments...), attributes, cpu_engine()};
#endif
}

/// Returns the descriptor of a primitive for a gradient of `forward`, the descriptor of the forward primitive. Throws
/// dnnl::error if oneDNN has no implementation.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(const Forward& forward, const dnnl::primitive_attr& attributes,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu_engine(), arguments..., forward, attributes};
#else
  return {typename Primitive::desc(arguments...), attributes, cpu_engine(), forward};
#endif
}

}  // namespace lockstep::host
