#include "nn/module_hooks.h"

#include "core/text.h"
#include "core/type_name.h"

namespace lockstep::nn {

HookHandle ModuleBase::register_forward_hook(ForwardHook hook) {
  if (!hook) throw InvalidArgument("[register_forward_hook] expected a function, got none");
  const auto hooks =
      forward_hooks_ ? std::make_shared<ForwardHooks>(*forward_hooks_) : std::make_shared<ForwardHooks>();
  HookHandle handle = hooks->add(std::move(hook));
  forward_hooks_ = hooks;
  return handle;
}

bool ModuleBase::has_forward_hooks() const noexcept { return forward_hooks_ && !forward_hooks_->empty(); }

void ModuleBase::call_forward_hooks(const Tensor& input, Tensor& output) {
  const std::shared_ptr<const ForwardHooks> hooks = forward_hooks_;  // keeps this list, because a hook may add hooks
  if (hooks) hooks->call_each([&](const ForwardHook& hook) { hook(*this, input, output); });
}

void ModuleBase::refuse_forward_hooks() const {
  throw InvalidArgument(text("[register_forward_hook] expected a module that returns a tensor, got ",
                             short_type_name(typeid(*this)), ": hook a module inside of it, or one around it"));
}

}  // namespace lockstep::nn
