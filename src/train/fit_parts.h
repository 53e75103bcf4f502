// Checks of the arguments of training, and work on its optimizers and modules.
#pragma once

#include <vector>

#include <lockstep/data/batch_share.h>
#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/train/batches.h>
#include <lockstep/train/trainer_options.h>

namespace lockstep::train::detail {

/// Each check throws InvalidArgument if its argument does not fit.
void check_optimizer(const optim::Optimizer& optimizer, nn::ModuleBase& module, bool has_folder);
void check_loader(const LoaderHandle& training, bool has_folder);
void check_folder(const CheckpointOptions& options);
void check_share(const LoaderHandle& loader, const data::BatchShare& expected);

/// The parameters of all groups.
std::vector<Tensor> parameters_of(const optim::Optimizer& optimizer);
/// Clips by gradient_clip_val and gradient_clip_algorithm.
void clip_gradients(const TrainerOptions& options, const optim::Optimizer& optimizer);

}  // namespace lockstep::train::detail
