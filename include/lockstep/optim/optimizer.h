// The base of all optimizers: parameter groups, state on the parameters' devices, and state dicts.
//
//   optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
//   optim::Adam optimizer({{body, {.lr = 1e-3}}, {head, {.lr = 1e-2}}});
//   for (auto& group : optimizer.param_groups()) group.options.lr *= 0.1;
//
// Options, defaults and arithmetic are PyTorch's. A parameter with replicas on several devices takes the same update on
// each of them, from the gradient and the state there: replicas stay bit-identical without copies. If devices shard the
// update (Shard), each device keeps state for its shard and updates this shard; then an all-gather sends the shards to
// the other devices. Not thread-safe: one thread at a time may use an optimizer.
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
class ReplayValues;
}

namespace lockstep::optim {

/// Parameters that one launch updates: see optim/rule.h.
struct Batch;

/// One tensor of a parameter's state, such as "momentum_buffer".
struct Slot {
  const char* name;
  bool used = true;    ///< True if the options of the group need it.
  double initial = 0;  ///< Its initial value.
};

/// One option of a group, under PyTorch's name.
struct Option {
  std::string_view name;
  std::variant<double*, bool*, std::int64_t*, std::array<double, 2>*> value;  ///< The address of the option.
};

class StateReader;

/// Computes the loss again: calls zero_grad(), forward() and backward(), and returns the loss.
using Closure = std::function<Tensor()>;

/// The part of optimizers that does not depend on the update rule: see the top of this file.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, with one launch for each group, device and dtype, on the current
  /// streams. State is made at a parameter's first step, in the dtype of its arithmetic: float32 for 16-bit
  /// parameters. Those also get a float32 "master_weight", so that updates too small for 16 bits add up. State moves
  /// when the parameter's sharding changes. Before anything changes, throws InvalidArgument if options are out of
  /// range, if a parameter is not contiguous, or, at the first step, if settings differ between the processes of a
  /// model. (The next forward pass reports later differences.) Throws AutogradError during a backward of a model on
  /// several devices, and if no parameter has had a gradient at any step() or zero_grad() yet, because the optimizer
  /// then trains nothing.
  virtual void step();
  /// Calls the closure, then step(). Returns the loss. (LBFGS calls the closure several times.)
  virtual Tensor step(const Closure& closure);
  /// Drops the gradients of all parameters and their replicas, or fills them with zeros in place. (Gradients that are
  /// views into a bucket then stay views.)
  void zero_grad(bool set_to_none = true);

  std::size_t group_count() const noexcept;  ///< Number of parameter groups.
  /// The parameters as given. Throws InvalidArgument for a group that does not exist.
  const std::vector<Tensor>& parameters(std::size_t group = 0) const;

  double lr(std::size_t group = 0) const;     ///< Throws InvalidArgument for a group that does not exist.
  void set_lr(double lr, std::size_t group);  ///< Throws InvalidArgument for a group that does not exist.
  void set_lr(double lr);                     ///< Sets the rate of all groups.
  /// `momentum` or the first of `betas`; nullopt if the optimizer has neither.
  std::optional<double> momentum(std::size_t group = 0) const;
  /// Throws InvalidArgument if the optimizer has no momentum.
  void set_momentum(double momentum, std::size_t group);

  /// "state.<parameter>.<slot>" is a handle to the state on the primary's device. If the state is sharded, it is a copy
  /// on the CPU, and all processes must call state_dict(). "state.<parameter>.step" and
  /// "param_groups.<group>.<option>" are copies on the CPU. Parameters are numbered across all groups.
  StateDict state_dict() const;
  /// Loads the state, onto every device of a parameter, and the options: training continues bit for bit. Before
  /// anything is changed, throws one InvalidArgument that names all missing, unexpected and invalid keys.
  void load_state_dict(const StateDict& state);
  void reset_state();  ///< Drops all state, as before the first step. Options stay.

 protected:
  explicit Optimizer(const char* name);
  /// Throws InvalidArgument or DTypeError unless each parameter is a floating-point leaf tensor that this optimizer
  /// does not have yet.
  void add_parameters(std::vector<Tensor> parameters);
  void check_group(std::size_t group) const;  ///< Throws InvalidArgument for a group that does not exist.
  /// Throws AutogradError if no parameter has had a gradient yet: see step().
  void note_gradient();

 private:
  struct Impl;
  struct CapturedBatch;
  struct CapturedOptimizerStep;
  class StepState;

  virtual std::vector<Option> option_list(std::size_t group) = 0;
  /// Throws InvalidArgument for options out of range.
  virtual void check_options(std::size_t group) const = 0;
  /// The state slots of each parameter: always the same number, in the same order; at most three.
  virtual std::vector<Slot> slots(std::size_t group) const = 0;
  /// Updates the parameters of the batch by one step.
  virtual void update(std::size_t group, const Batch& batch) const = 0;
  /// The name of a scalar, initially 1, that each parameter keeps beside its slots; null if there is no scalar.
  virtual const char* scalar_state_name() const { return nullptr; }
  /// Returns the scalar after step `step`. `before` is the scalar before that step.
  virtual double next_scalar_state(std::size_t /*group*/, double /*step*/, double before) const { return before; }
  /// Adds state that belongs to no single parameter to `dict`.
  virtual void add_own_state(StateDict& /*dict*/) const {}
  /// Reads the state that add_own_state() adds, and records problems in `reader`. Returns a function that later
  /// installs the state, or null.
  virtual std::function<void()> read_own_state(StateReader& /*reader*/) { return {}; }
  virtual void reset_own_state() {}  ///< Resets the state that add_own_state() adds.

  /// Returns slots(). Throws InvalidArgument if there are too many.
  std::vector<Slot> checked_slots(std::size_t group) const;
  /// Returns the gradient of a parameter, which must have one, in each replica. Throws InvalidArgument unless all
  /// replicas are contiguous and have one shape and dtype.
  std::vector<Tensor> gradients_of(std::size_t group, std::size_t parameter) const;
  /// For a step that is being captured: prepares the batch, and returns the data that replays its update.
  CapturedBatch capture_batch(ReplayValues& values, std::size_t group, Batch& batch);
  /// The host's part of step() when a captured step is replayed.
  void replay(const CapturedOptimizerStep& captured);
  /// Tells the CapturedStep that this thread runs, if any, that it uses this optimizer. `captured`: the data that
  /// step() made for its replays, or null.
  void register_with_capture(const std::shared_ptr<CapturedOptimizerStep>& captured);
  /// Called before a step. If a model has several processes, writes the settings to its call log; at the first step all
  /// processes compare their settings.
  void compare_settings();
  std::string settings() const;
  double* find_number(std::size_t group, std::string_view name) const;
  double* find_momentum(std::size_t group) const;

  const std::shared_ptr<Impl> impl_;  // captured steps hold a weak_ptr to it
};

/// An optimizer whose groups have these options: Options is an aggregate with kName, members() and check().
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  /// Parameters with common options. A group inherits no options from other groups.
  struct Group {
    std::vector<Tensor> params;
    Options options = {};
  };
  /// A group of an optimizer; the options may be changed between steps.
  struct ParamGroup {
    const std::vector<Tensor>& params;
    Options& options;
  };

  /// The constructors throw InvalidArgument for no parameters, a repeated parameter, or options out of range.
  explicit OptimizerWith(std::vector<Tensor> params, const Options& options = {}) : Optimizer(Options::kName) {
    add_param_group({std::move(params), options});
  }
  explicit OptimizerWith(std::vector<Group> groups) : Optimizer(Options::kName) {
    if (groups.empty()) add_parameters({});
    for (Group& group : groups) add_param_group(std::move(group));
  }

  /// Adds a group whose parameters have no state yet: add_param_group({head.parameters(), {.lr = 1e-2}}). Schedules
  /// that were made earlier do not change this group's rate. Throws as the constructors do.
  void add_param_group(Group group) {
    group.options.check();
    add_parameters(std::move(group.params));
    options_.push_back(std::move(group.options));
  }
  /// All groups. The references are valid until a group is added.
  std::vector<ParamGroup> param_groups() {
    std::vector<ParamGroup> all;
    for (std::size_t g = 0; g < options_.size(); ++g) all.push_back({parameters(g), options_[g]});
    return all;
  }
  /// The options of a group, which may be changed between steps. Throws InvalidArgument for a group that does not
  /// exist.
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
