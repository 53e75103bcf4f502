// Applies an optimizer's arithmetic in one launch. An optimizer is a rule, a function object that updates one element:
//
//   struct Rule { double lr; template <class T> LOCKSTEP_HD void operator()(T& p, T g, T& s) const; };
//
// It computes in the compute type of the parameter. Rules are compiled without FMA contraction, so that the bits of an
// element's update do not depend on its position in memory.
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
#include <lockstep/kernels/multi_map.h>
#include <lockstep/kernels/visit.h>

namespace lockstep::optim {

/// The maximum number of state tensors of a parameter.
inline constexpr std::size_t kMaxSlots = 4;
/// The slot of the master weight: a float32 tensor, from which a 16-bit parameter is rounded. Optimizers use the slots
/// before this one.
inline constexpr std::size_t kMasterSlot = 3;

class CapturedRule;

/// Parameters of one group, device and dtype that have taken the same number of steps. An optimizer's update() gets a
/// batch and passes it to apply(). The owner of the tensors keeps them alive until the launch.
struct Batch {
  /// One parameter.
  struct Item {
    const TensorImpl* parameter;
    const TensorImpl* gradient;
    std::array<const TensorImpl*, kMaxSlots> slots;
  };

  DeviceState* device = nullptr;
  DType dtype = kFloat32;            ///< The parameters' dtype.
  double step = 0;                   ///< The number of this step, from 1.
  double scalar_state = 1;           ///< See Optimizer::scalar_state_name.
  unsigned new_slots = 0;            ///< Bit k: slot k was made in this step.
  CapturedRule* captured = nullptr;  ///< Set while a step is captured or replayed, else null.
  std::vector<Item> items;           ///< All parameters of the batch.

  /// True if the slot was made in this step.
  bool is_new_slot(std::size_t slot) const noexcept { return (new_slots >> slot) & 1; }
};

/// A rule in a captured step. The captured kernel reads it from device memory, where each replay writes the present
/// rule.
class CapturedRule {
 public:
  virtual ~CapturedRule() = default;
  /// Stores the present rule, which updates the slots whose bits are set in `slots`. Returns true if the caller must
  /// launch the kernel; false in a replay, which only sends the rule to the captured kernel. Throws InvalidArgument for
  /// a rule other than the captured one.
  virtual bool put(const char* op, unsigned slots, const void* rule, std::size_t bytes) = 0;
  virtual const TensorImpl& memory() const = 0;  ///< The rule in device memory.
};

/// A rule, or its address in device memory.
template <class Rule>
struct RuleSource {
  Rule by_value;                 ///< Used if `in_device_memory` is null.
  const Rule* in_device_memory;  ///< Read when the kernel runs; may be null.

  LOCKSTEP_HD Rule bind() const { return in_device_memory ? *in_device_memory : by_value; }  ///< The rule to apply.
};

/// Bit k of `slots` stands for slot k. Throws InvalidArgument naming `op` if a bit is set and the batch does not have
/// that slot.
LOCKSTEP_API void expect_slots(const char* op, const Batch& batch, unsigned slots);
/// Bumps the versions of the batch's parameters, and of each slot k for which bit k of `slots` is set.
LOCKSTEP_API void bump_versions(const Batch& batch, unsigned slots) noexcept;

/// A rule for 16-bit parameters. It updates the master weight and rounds it to the parameter. If the parameter is not
/// the rounded master weight (after a change by hand, or with a new master weight), the update starts from the
/// parameter instead.
template <class Narrow, class Rule>
struct OnMaster {
  Rule rule;  ///< The rule for the master weight.

  /// Updates one element.
  template <class T, class... State>
  LOCKSTEP_HD void operator()(T& p, T g, T& master, State&... state) const {
    T value = T(Narrow(master)) == p ? master : p;
    rule(value, g, state...);
    master = value;
    p = value;
  }
};

namespace detail {
/// The operands of a rule: the parameter, its gradient, and the slots that the rule takes.
template <std::size_t N>
std::vector<MultiRow<2 + N>> rows_of(const Batch& batch, const std::array<std::size_t, N>& slots) {
  std::vector<MultiRow<2 + N>> rows;
  rows.reserve(batch.items.size());
  for (const Batch::Item& item : batch.items) {
    MultiRow<2 + N>& row = rows.emplace_back(MultiRow<2 + N>{item.parameter, item.gradient});
    for (std::size_t s = 0; s != N; ++s) row[2 + s] = item.slots[slots[s]];
  }
  return rows;
}

template <class... T, class Rule, std::size_t N>
void launch_rule(const char* name, double flops, const Rule& rule, const Batch& batch,
                 const std::array<std::size_t, N>& slots) {
  static_assert(std::is_trivially_copyable_v<Rule>, "a captured step sends rules to devices as bytes");
  RuleSource<Rule> source{rule, nullptr};
  const TensorImpl* memory = nullptr;
  if (batch.captured) {
    unsigned taken = 0;
    for (const std::size_t slot : slots) taken |= 1u << slot;
    if (!batch.captured->put(name, taken, &rule, sizeof rule)) return;
    memory = &batch.captured->memory();
    source.in_device_memory = reinterpret_cast<const Rule*>(lockstep::detail::elements_of(*memory).data);
  }
  const std::vector<MultiRow<2 + N>> rows = rows_of(batch, slots);
  multi_map<T...>(name, flops, source, *batch.device, std::span(rows), std::span(&memory, memory ? 1 : 0));
}
}  // namespace detail

/// Applies rule(p, g, slots...) to each element of the batch, in one launch. Slot: the slots that the rule takes, by
/// their positions in the optimizer's slots(). Throws InvalidArgument for a slot that is not used.
template <std::size_t... Slot, class Rule>
void apply(const char* name, double flops, const Rule& rule, const Batch& batch) {
  constexpr unsigned kTaken = (0u | ... | (1u << Slot));
  expect_slots(name, batch, kTaken);
  visit_floating(name, batch.dtype, [&]<class T>() {
    using State = ComputeType<T>;
    if constexpr (kNarrow<T>)
      detail::launch_rule<T, const T, State, std::conditional_t<(Slot < kMasterSlot), State, void>...>(
          name, flops, OnMaster<T, Rule>{rule}, batch,
          std::array<std::size_t, 1 + sizeof...(Slot)>{kMasterSlot, Slot...});
    else
      detail::launch_rule<T, const T, std::conditional_t<(Slot < kMasterSlot), State, void>...>(
          name, flops, rule, batch, std::array<std::size_t, sizeof...(Slot)>{Slot...});
  });
  bump_versions(batch, kTaken | 1u << kMasterSlot);
}

/// Computes the gradient of an update: negates it to maximize, and adds the weight decay.
struct Direction {
  double sign;  ///< 1, or -1 to maximize.
  double weight_decay;

  Direction(bool maximize, double decay) : sign(maximize ? -1 : 1), weight_decay(decay) {}
  /// Returns the gradient to descend along: sign * g + weight_decay * p.
  template <class T>
  LOCKSTEP_HD T of(T g, T p) const {
    g *= T(sign);
    return weight_decay != 0 ? g + T(weight_decay) * p : g;
  }
};

/// Throws InvalidArgument naming the optimizer, `expected` and `got`, unless `holds`.
LOCKSTEP_API void require(bool holds, const char* optimizer, std::string_view expected, double got);
LOCKSTEP_API void require_not_negative(const char* optimizer,
                                       std::initializer_list<std::pair<std::string_view, double>> options);
LOCKSTEP_API void require_betas(const char* optimizer, const std::array<double, 2>& betas);  ///< Each in [0, 1).

}  // namespace lockstep::optim
