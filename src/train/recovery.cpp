#include <lockstep/train/recovery.h>

#include <exception>
#include <iostream>

#include <lockstep/tensor/creation.h>
#include <lockstep/train/checkpoint_folder.h>

#include "core/text.h"
#include "nn/each_state.h"
#include "runtime/registry.h"

namespace lockstep::train::detail {
namespace {

std::string names(const std::vector<Device>& devices) {
  std::string all;
  for (const Device& device : devices) all += text(all.empty() ? "" : ", ", device);
  return all;
}

std::string message_of_current_error() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void Recovery::go_on_or_rethrow(nn::ModuleBase& module, std::span<optim::Optimizer* const> optimizers) {
  std::vector<Device> lost, left;
  for (const Device& device : devices_) (is_lost(device) ? lost : left).push_back(device);
  if (options_.on_lost_device == OnLostDevice::stop || lost.empty() || left.empty()) throw;
  if (!latest_checkpoint(options_.checkpoint.folder)) throw;
  notes_.push_back(text("lost ", names(lost), ": ", message_of_current_error(),
                        "; training continues from the newest checkpoint on ", names(left)));
  std::cerr << text("[trainer] ", notes_.back(), '\n');
  // The new memory gets its values from the checkpoint, which is loaded next. reset() keeps the users' handles valid.
  nn::for_each_state(module, [&](const nn::Path&, nn::State& value) {
    if (value.defined() && is_lost(value.device()))
      value.reset(zeros(value.sizes(), {.dtype = value.dtype(), .device = left.front()}));
  });
  for (optim::Optimizer* const optimizer : optimizers) optimizer->reset_state();
  options_.checkpoint.resume = true;
  devices_ = std::move(left);
}

}  // namespace lockstep::train::detail
