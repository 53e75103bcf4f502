#include <lockstep/nn/averaged_model.h>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "core/context.h"
#include "core/text.h"

namespace lockstep {
namespace nn {
namespace {

using Entries = std::vector<StateDict::Entry>;

void check_alike(const Entries& averaged, const Entries& model) {
  const auto described = [](const StateDict::Entry& entry) { return text(entry.first, ' ', entry.second.sizes()); };
  if (averaged.size() != model.size())
    throw InvalidArgument(text("[AveragedModel] expected a model with ", averaged.size(),
                               " parameters or buffers, as the averaged one has, got ", model.size()));
  for (std::size_t i = 0; i < averaged.size(); ++i)
    if (averaged[i].first != model[i].first || averaged[i].second.sizes() != model[i].second.sizes())
      throw InvalidArgument(
          text("[AveragedModel] expected ", described(averaged[i]), " in the model, got ", described(model[i])));
}

}  // namespace

Tensor detail::no_models() { return zeros({}, {.dtype = kInt64}); }

void detail::update_averages(ModuleBase& averaged, Buffer& n_averaged, const ModuleBase& model,
                             const std::function<Tensor(const Tensor&, const Tensor&, std::int64_t)>& function,
                             bool use_buffers) {
  if (context().host_state)
    throw InvalidArgument(
        "[AveragedModel] update_parameters() cannot be captured, since it counts models on the host: call it after "
        "the captured step");
  const NoGrad guard;
  const Entries parameters = averaged.named_parameters(), buffers = averaged.named_buffers();
  const Entries now = model.named_parameters(), buffers_now = model.named_buffers();
  check_alike(parameters, now);
  check_alike(buffers, buffers_now);
  const auto count = n_averaged.item<std::int64_t>();
  const auto update = [&](const Tensor& average, const Tensor& current, bool averages) {
    Tensor into = average.detach();
    const Tensor there = current.detach().to(into.device());
    if (!averages || count == 0)
      into.copy_(there);
    else if (is_floating(into.dtype()))
      into.copy_(function(into, there, count));
    else
      into.copy_(function(into.to(kFloat64), there.to(kFloat64), count));
  };
  for (std::size_t i = 0; i < now.size(); ++i) update(parameters[i].second, now[i].second, true);
  for (std::size_t i = 0; i < buffers.size(); ++i) update(buffers[i].second, buffers_now[i].second, use_buffers);
  n_averaged.add_(1);
}

}  // namespace nn

namespace optim::swa_utils {

AverageFunction get_swa_avg_fn() {
  return [](const Tensor& averaged, const Tensor& current, std::int64_t num_averaged) {
    return averaged + (current - averaged) / double(num_averaged + 1);
  };
}

AverageFunction get_ema_avg_fn(double decay) {
  if (!(decay >= 0 && decay <= 1))
    throw InvalidArgument(text("[get_ema_avg_fn] expected a decay from 0 to 1, got ", decay));
  return [decay](const Tensor& averaged, const Tensor& current, std::int64_t) {
    return decay * averaged + (1 - decay) * current;
  };
}

}  // namespace optim::swa_utils
}  // namespace lockstep
