// An average of a model's parameters over training steps: stochastic weight averaging (SWA; Izmailov et al. 2018) or an
// exponential moving average (EMA). Names are those of torch.optim.swa_utils.
//
//   using namespace optim::swa_utils;
//   AveragedModel ema(net, {.avg_fn = get_ema_avg_fn(0.999)});
//   for (...) { ...; optimizer.step(); ema.update_parameters(net); }
//   Tensor output = ema(input);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <lockstep/nn/module.h>

namespace lockstep::nn::detail {
LOCKSTEP_API Tensor no_models();  ///< The initial n_averaged: 0, an int64 tensor [].
LOCKSTEP_API void update_averages(ModuleBase& averaged, Buffer& n_averaged, const ModuleBase& model,
                                  const std::function<Tensor(const Tensor&, const Tensor&, std::int64_t)>& function,
                                  bool use_buffers);
}  // namespace lockstep::nn::detail

namespace lockstep::optim::swa_utils {

/// Returns the new average from the average of `num_averaged` models and the next model's value.
using AverageFunction = std::function<Tensor(const Tensor& averaged, const Tensor& current, std::int64_t num_averaged)>;

/// Returns the function for the mean of all models.
LOCKSTEP_API AverageFunction get_swa_avg_fn();
/// Returns the function decay * averaged + (1 - decay) * current. Throws InvalidArgument unless 0 <= decay <= 1.
LOCKSTEP_API AverageFunction get_ema_avg_fn(double decay = 0.999);

struct AveragedModelOptions {
  std::optional<Device> device = {};  ///< Device of the average; the model's by default.
  AverageFunction avg_fn = {};        ///< get_swa_avg_fn() by default.
  bool use_buffers = false;           ///< True: averages buffers too. False: copies those of the last model.
};

/// A copy of a model whose parameters are averages. Its state dict has "n_averaged" and the model's keys under
/// "module.", as in PyTorch. To average a model on several devices, pass its module:
/// AveragedModel(copy(model.module())).
template <class M>
class AveragedModel : public nn::Module<AveragedModel<M>> {
 public:
  /// Copies the model. The copied values do not enter the average, because the first update replaces them.
  explicit AveragedModel(const M& model, const AveragedModelOptions& options = {})
      : n_averaged(nn::detail::no_models()),
        module(model),
        function_(options.avg_fn),
        use_buffers_(options.use_buffers) {
    if (!function_) function_ = get_swa_avg_fn();
    if (options.device) this->to(*options.device);
  }

  nn::Buffer n_averaged;  ///< Number of averaged models: int64 [].
  M module;               ///< The model with averaged parameters.

  auto members() { return nn::members("n_averaged", n_averaged, "module", module); }
  /// Calls the averaged module.
  template <class... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    return module(std::forward<Arguments>(arguments)...);
  }
  /// Adds a model to the average; the first model is copied. The model may be on another device. If it has other
  /// parameters or buffers, throws InvalidArgument before anything is changed.
  void update_parameters(const nn::ModuleBase& model) {
    nn::detail::update_averages(module, n_averaged, model, function_, use_buffers_);
  }

 private:
  AverageFunction function_;
  bool use_buffers_;
};

}  // namespace lockstep::optim::swa_utils
