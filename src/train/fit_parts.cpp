#include "train/fit_parts.h"

#include <unordered_set>
#include <vector>

#include <lockstep/optim/clip.h>
#include <lockstep/train/checkpoint_folder.h>

#include "core/text.h"
#include "io/path.h"
#include "tensor/tensor_impl.h"

namespace lockstep::train::detail {

// Rejects an optimizer that was made from a copy of the module, because it would not train the module; and an optimizer
// with parameters that the module has replaced. Other parameters outside the module are allowed, unless there are
// checkpoints, which would not hold their values.
void check_optimizer(const optim::Optimizer& optimizer, nn::ModuleBase& module, bool has_folder) {
  std::unordered_set<const TensorImpl*> there;
  for (const Tensor& parameter : module.parameters()) there.insert(parameter.impl());
  bool any = false;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    for (const Tensor& parameter : optimizer.parameters(g)) {
      const bool trained = there.contains(parameter.impl());
      any = any || trained;
      if (!trained && has_folder)
        throw InvalidArgument(
            text("[trainer] checkpoints save only the module's parameters, but the optimizer also has a parameter of "
                 "shape ",
                 parameter.sizes(), ". Add it to the module's members()"));
      if (!trained && parameter.impl()->references == 1)
        throw InvalidArgument(text("[trainer] the optimizer holds a parameter of shape ", parameter.sizes(),
                                   " that the module no longer has (it was replaced after the optimizer was made). "
                                   "Make the optimizer after the last change to the module"));
    }
  if (!any)
    throw InvalidArgument(
        "[trainer] none of the optimizer's parameters belong to the module. Was it made from a copy? Use "
        "optim::SGD(net.parameters(), ...) with the module given to fit()");
}

void check_loader(const LoaderHandle& training, bool has_folder) {
  if (training.size && training.size() == 0)
    throw InvalidArgument("[trainer] expected a loader of at least one batch, got none");
  if (!has_folder) return;
  if (!training.state)
    throw InvalidArgument(
        "[trainer] expected a loader with state() and load_state() for checkpoints, got one without: "
        "use data::DataLoader, or leave checkpoint.folder empty");
  training.state();  // throws for a loader that cannot be iterated again
}

void check_folder(const CheckpointOptions& options) {
  check_path("trainer", options.folder);
  if (options.folder.empty() || options.resume) return;
  if (const auto found = latest_checkpoint(options.folder))
    throw InvalidArgument(text("[trainer] expected .resume = true or a folder without checkpoints, got ", *found));
}

void check_share(const LoaderHandle& loader, const data::BatchShare& expected) {
  const auto named = [](const data::BatchShare& share) {
    return text("that of process ", share.process, " of ", share.processes, " with ", share.devices, " devices each");
  };
  if (loader.share && *loader.share != expected)
    throw InvalidArgument(text("[trainer] expected loaders with .share = trainer.share(), ", named(expected), ", got ",
                               named(*loader.share)));
}

std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> parameters;
  for (std::size_t g = 0; g < optimizer.group_count(); ++g)
    parameters.insert(parameters.end(), optimizer.parameters(g).begin(), optimizer.parameters(g).end());
  return parameters;
}

void clip_gradients(const TrainerOptions& options, const optim::Optimizer& optimizer) {
  if (options.gradient_clip_val == 0) return;
  const std::vector<Tensor> parameters = parameters_of(optimizer);
  if (options.gradient_clip_algorithm == GradientClip::norm)
    optim::clip_grad_norm_(parameters, options.gradient_clip_val);
  else
    optim::clip_grad_value_(parameters, options.gradient_clip_val);
}

}  // namespace lockstep::train::detail
