// Those who hear of one backward: the listeners of the models whose parameters it reaches.
#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "autograd/replicated_parameter.h"

namespace lockstep::autograd {

/// Throws AutogradError for a stale replica other than the primary: the gradient that a backward brings there would be
/// lost.
void refuse_stale(const Tensor& leaf);

/// Used by the backward's caller alone.
class Listeners {
 public:
  /// The leaf's listener, if it has one, will hear of the leaf. Throws as refuse_stale().
  void add(const Tensor& leaf);
  /// begin() of each. Where one throws, calls end() of those before it, and throws that.
  void begin(bool keeps_graph);
  /// Calls end() of each, whatever they throw. The first error, or null.
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
