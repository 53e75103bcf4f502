// From an optimizer's arithmetic to its launch. An optimizer is a rule, a function object that updates one element:
//
//   struct Rule { double lr; template <class T> LOCKSTEP_HD void operator()(T& p, T g, T& s) const; };
//
// in the type that the parameter computes in. It is built without fused operations that are not written, so that an
// element's bits do not depend on where it stands in memory.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/dtype.h>
#include <lockstep/core/export.h>
#include <lockstep/tensor/kernels/multi_map.h>
#include <lockstep/tensor/kernels/visit.h>

namespace lockstep::optim {

/// The most tensors of state that a parameter has.
inline constexpr std::size_t kMaxSlots = 4;
/// Of 16-bit parameters: what they are the rounding of, in float32. Optimizers use the slots before it.
inline constexpr std::size_t kMasterSlot = 3;

/// Parameters of one group, device and dtype that have taken equally many steps: what an optimizer's update() hands to
/// apply(). What it points to is kept alive elsewhere until the launch.
struct Batch {
  /// One parameter.
  struct Item {
    const TensorImpl* parameter;
    const TensorImpl* gradient;
    std::array<const TensorImpl*, kMaxSlots> slots;
  };

  DeviceState* device = nullptr;
  DType dtype = kFloat32;   ///< Of the parameters.
  double step = 0;          ///< Counts this one.
  double number = 1;        ///< See Optimizer::number_name.
  unsigned fresh = 0;       ///< Bit k: slot k was made in this step.
  std::vector<Item> items;  ///< All parameters.

  /// Whether slot was made in this step.
  bool is_fresh(std::size_t slot) const noexcept { return (fresh >> slot) & 1; }
};

/// Throws InvalidArgument naming `op` unless the slots whose bits are set are used in this batch.
LOCKSTEP_API void expect_slots(const char* op, const Batch& batch, unsigned slots);
/// Counts the change in place of the parameters and of the slots whose bits are set.
LOCKSTEP_API void count_changes(const Batch& batch, unsigned slots) noexcept;

/// A rule for 16-bit parameters: it updates the master weight, of which the parameter is the rounding. Where it is not,
/// the parameter was changed by hand, or the master weight is new: then the parameter counts.
template <class Narrow, class Rule>
struct OnMaster {
  Rule rule;  ///< For the master weight.

  /// Updates one element.
  template <class T, class... State>
  LOCKSTEP_HD void operator()(T& p, T g, T& master, State&... state) const {
    T value = T(Narrow(master)) == p ? master : p;
    rule(value, g, state...);
    master = value;
    p = value;
  }
};

/// Applies rule(p, g, slots...) to each element of the batch, in one launch. Slot: which slots the rule takes, by their
/// places in what the optimizer's slots() says. Throws InvalidArgument for one that is not used.
template <std::size_t... Slot, class Rule>
void apply(const char* name, double flops, const Rule& rule, const Batch& batch) {
  constexpr unsigned kTaken = (0u | ... | (1u << Slot));
  expect_slots(name, batch, kTaken);
  visit_floating(name, batch.dtype, [&]<class T>() {
    constexpr std::size_t kOperands = 2 + kNarrow<T> + sizeof...(Slot);
    std::vector<MultiRow<kOperands>> rows;
    rows.reserve(batch.items.size());
    using State = ComputeType<T>;
    if constexpr (kNarrow<T>) {
      for (const Batch::Item& item : batch.items)
        rows.push_back({item.parameter, item.gradient, item.slots[kMasterSlot], item.slots[Slot]...});
      multi_map<T, const T, State, std::conditional_t<(Slot < kMasterSlot), State, void>...>(
          name, flops, OnMaster<T, Rule>{rule}, *batch.device, std::span<const MultiRow<kOperands>>(rows));
    } else {
      for (const Batch::Item& item : batch.items) rows.push_back({item.parameter, item.gradient, item.slots[Slot]...});
      multi_map<T, const T, std::conditional_t<(Slot < kMasterSlot), State, void>...>(
          name, flops, rule, *batch.device, std::span<const MultiRow<kOperands>>(rows));
    }
  });
  count_changes(batch, kTaken | 1u << kMasterSlot);
}

/// The gradient as an update sees it: turned around to maximize, with weight decay.
struct Direction {
  double sign;  ///< 1, or -1 to maximize.
  double weight_decay;

  Direction(bool maximize, double decay) : sign(maximize ? -1 : 1), weight_decay(decay) {}
  /// The gradient to descend: with the sign, and with weight decay.
  template <class T>
  LOCKSTEP_HD T of(T g, T p) const {
    g *= T(sign);
    return weight_decay != 0 ? g + T(weight_decay) * p : g;
  }
};

/// Throw InvalidArgument naming the optimizer and the option.
LOCKSTEP_API void require(bool holds, const char* optimizer, std::string_view expected, double got);
LOCKSTEP_API void require_not_negative(const char* optimizer,
                                       std::initializer_list<std::pair<std::string_view, double>> options);
LOCKSTEP_API void require_betas(const char* optimizer, const std::array<double, 2>& betas);  ///< In [0, 1).

}  // namespace lockstep::optim
