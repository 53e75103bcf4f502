// What all optimizers share: parameter groups, state that lives where the parameters live, and its state dict.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::Adam optimizer({{body, {.lr = 1e-3}}, {head, {.lr = 1e-2}}});
//   for (auto& group : optimizer.param_groups()) group.options.lr *= 0.1;
//
// Options, defaults and arithmetic are PyTorch's. A parameter that lives on several devices takes the very same update
// on each, from the gradient and the state that are there: its replicas stay bit-identical and nothing is copied. Where
// the devices divide it (BucketOptions::shard_optimizer_state), each keeps state of its shard and updates that, and the
// shards are sent to the others. One thread at a time may use an optimizer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/core/members.h>
#include <lockstep/tensor/state_dict.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep {
class StepValues;
}

namespace lockstep::optim {

/// Parameters that one launch updates: optim/rule.h.
struct Batch;

/// One tensor of a parameter's state, such as "momentum_buffer".
struct Slot {
  const char* name;
  bool used = true;    ///< Whether the options of the group ask for it.
  double initial = 0;  ///< What it is filled with at first.
};

/// One option of a group, by PyTorch's name.
struct Option {
  std::string_view name;
  std::variant<double*, bool*, std::int64_t*, std::array<double, 2>*> value;  ///< Where it is.
};

class StateReader;

/// Computes the loss anew: zero_grad(), forward, backward(), and returns the loss.
using Closure = std::function<Tensor()>;

/// The part of optimizers that does not depend on the rule: see the description of the file.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, with one launch for each group, device and dtype, on the current
  /// streams. State is made at a parameter's first step, in the dtype that its arithmetic happens in (float32 for
  /// 16-bit parameters, which also get "master_weight", in float32: steps add up there that are below their rounding),
  /// and moves when devices shard the parameter otherwise. Before anything changes, throws InvalidArgument for options
  /// out of range and for a parameter that is not contiguous; at the first step, for settings that differ between the
  /// processes of a model (settings that differ later its next forward pass names); AutogradError during a backward of
  /// a model on several devices, and where no parameter has had a gradient at any step() or zero_grad() yet: such an
  /// optimizer trains nothing.
  virtual void step();
  /// Calls the closure, then step(): the loss. (LBFGS calls it several times in a step.)
  virtual Tensor step(const Closure& closure);
  /// Drops the gradients of all parameters and of their replicas, or fills them with zeros where they are: gradients
  /// that are views into a bucket stay views.
  void zero_grad(bool set_to_none = true);

  std::size_t group_count() const noexcept;  ///< Groups of parameters.
  /// As they were given. Throws InvalidArgument for a group that is not there.
  const std::vector<Tensor>& parameters(std::size_t group = 0) const;

  double lr(std::size_t group = 0) const;     ///< Of a group. Throws InvalidArgument for a group that is not there.
  void set_lr(double lr, std::size_t group);  ///< Throws InvalidArgument for a group that is not there.
  void set_lr(double lr);                     ///< Of all groups.
  /// `momentum` or the first of `betas`; nothing where the optimizer has neither.
  std::optional<double> momentum(std::size_t group = 0) const;
  /// Throws InvalidArgument where the optimizer has no momentum.
  void set_momentum(double momentum, std::size_t group);

  /// "state.<parameter>.<slot>" holds handles to the state on the primary's device, or copies there of what devices
  /// divide (all processes call it, if they do); "state.<parameter>.step" and "param_groups.<group>.<option>" copies on
  /// the CPU. Parameters count through all groups.
  StateDict state_dict() const;
  /// Takes over state, onto every device of a parameter, and options: training goes on bit for bit. All missing,
  /// unexpected and unfit keys are named in one InvalidArgument, before anything is changed.
  void load_state_dict(const StateDict& state);
  void reset_state();  ///< As before the first step. Options stay as they are.

 protected:
  explicit Optimizer(const char* name);
  /// Throws InvalidArgument, DTypeError for what is not a floating leaf of its own.
  void add_parameters(std::vector<Tensor> parameters);
  void check_group(std::size_t group) const;  ///< Throws InvalidArgument for a group that is not there.
  /// Throws AutogradError where no parameter has had a gradient yet: see step().
  void note_gradient();

 private:
  struct Impl;
  struct KeptBatch;
  struct KeptStep;
  class StepState;

  virtual std::vector<Option> option_list(std::size_t group) = 0;
  /// Throws InvalidArgument for options out of range.
  virtual void check_options(std::size_t group) const = 0;
  /// Always as many, in one order; three at most.
  virtual std::vector<Slot> slots(std::size_t group) const = 0;
  /// One step of a batch.
  virtual void update(std::size_t group, const Batch& batch) const = 0;
  /// The name of a number that each parameter keeps beside its slots, which starts at 1; null for none.
  virtual const char* number_name() const { return nullptr; }
  /// That number after step `step`, from before.
  virtual double next_number(std::size_t /*group*/, double /*step*/, double number) const { return number; }
  /// State that belongs to no single parameter, by its keys.
  virtual void add_own_state(StateDict& /*dict*/) const {}
  /// Reads that state, noting problems; gives what takes it over once nothing is wrong, or nothing.
  virtual std::function<void()> read_own_state(StateReader& /*reader*/) { return {}; }
  virtual void reset_own_state() {}  ///< As before the first step.

  /// slots(); throws InvalidArgument for too many.
  std::vector<Slot> checked_slots(std::size_t group) const;
  /// Checks a parameter that is due, and gives its gradient in each replica.
  std::vector<Tensor> gradients_of(std::size_t group, std::size_t parameter) const;
  /// Of a step that is captured: prepares the batch, and gives what does its update again.
  KeptBatch captured(StepValues& values, std::size_t group, Batch& batch);
  /// What step() does on the host when a captured one is done again.
  void step_again(const KeptStep& kept);
  /// A step of several things has used this; `kept`: what it captured, if it did.
  void use_in_step(const std::shared_ptr<KeptStep>& kept);
  /// Before a step: models of several processes note its settings. At the first step all processes compare them.
  void compare_settings();
  std::string settings() const;
  double* find_number(std::size_t group, std::string_view name) const;
  double* find_momentum(std::size_t group) const;

  const std::shared_ptr<Impl> impl_;  // captured steps see whether it is there
};

/// An optimizer whose groups have these options: an aggregate with kName, members() and check().
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  /// Parameters that share options: all of them, since a group takes none from the others.
  struct Group {
    std::vector<Tensor> params;
    Options options = {};
  };
  /// A group of an optimizer; its options may be changed between steps.
  struct ParamGroup {
    const std::vector<Tensor>& params;
    Options& options;
  };

  /// Throw InvalidArgument for no parameters, one that is there twice, or options out of range.
  explicit OptimizerWith(std::vector<Tensor> params, const Options& options = {}) : Optimizer(Options::kName) {
    add_param_group({std::move(params), options});
  }
  explicit OptimizerWith(std::vector<Group> groups) : Optimizer(Options::kName) {
    if (groups.empty()) add_parameters({});
    for (Group& group : groups) add_param_group(std::move(group));
  }

  /// One more group, whose parameters have no state yet: add_param_group({head.parameters(), {.lr = 1e-2}}). A schedule
  /// that is there already leaves its rate alone. Throws as the constructors do.
  void add_param_group(Group group) {
    group.options.check();
    add_parameters(std::move(group.params));
    options_.push_back(std::move(group.options));
  }
  /// All groups. The references hold until a group is added.
  std::vector<ParamGroup> param_groups() {
    std::vector<ParamGroup> all;
    for (std::size_t g = 0; g < options_.size(); ++g) all.push_back({parameters(g), options_[g]});
    return all;
  }
  /// May be changed between steps. Throws InvalidArgument for a group that is not there.
  Options& options(std::size_t group = 0) { return check_group(group), options_[group]; }
  const Options& options(std::size_t group = 0) const { return check_group(group), options_[group]; }

 private:
  std::vector<Option> option_list(std::size_t group) override {
    std::vector<Option> list;
    for_each_member(options_[group], [&](std::string_view name, auto& value) { list.push_back({name, &value}); });
    return list;
  }
  void check_options(std::size_t group) const override { options_[group].check(); }

  std::vector<Options> options_;
};

}  // namespace lockstep::optim
