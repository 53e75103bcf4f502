// The listeners of one backward: those of the models whose parameters it reaches.
#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/replicated_parameter.h"

namespace lockstep::autograd {

/// Throws AutogradError if the leaf is a replica that newer ones have replaced, or whose model was destroyed, unless it
/// is the primary: no parameter would get its gradient.
void refuse_stale(const Tensor& leaf);

/// The listeners of the leaves that one backward reaches. Only the thread that called backward() uses it, but
/// any thread may call is_ahead().
class Listeners {
 public:
  /// If the leaf has a listener, adds the leaf to those that the listener gets in begin(). Throws as refuse_stale()
  /// does.
  void add(const Tensor& leaf);
  /// Calls begin() of each listener. If one throws, calls end() of the listeners before it and rethrows.
  void begin(bool keeps_graph, bool meets);
  /// Returns the greatest is_ahead() of all listeners. Call it between begin() and end().
  Ahead is_ahead(const Device& device) const;
  /// Calls end() of each listener, even if some throw. Returns the first error, or null.
  std::exception_ptr end(bool failed) noexcept;

 private:
  struct Heard {
    std::shared_ptr<GradientListener> listener;
    std::vector<const Replica*> leaves;
  };
  std::vector<Heard> all_;
  std::size_t begun_ = 0;
};

}  // namespace lockstep::autograd
