#include <lockstep/nn/sequential.h>

#include <lockstep/nn/layers.h>

#include "core/text.h"
#include "core/type_name.h"
#include "nn/layer_parameters.h"
#include "ops/linear.h"

namespace lockstep::nn {
namespace {

// The activation that `module` computes, if it can be fused into the linear layer before it.
Activation activation_of(AnyModule& module) {
  if (const ReLU* const relu = module.find<ReLU>())
    return relu->has_forward_hooks() ? Activation::none : Activation::relu;
  const GELU* const gelu = module.find<GELU>();
  return gelu && !gelu->has_forward_hooks() && gelu->approximate == GeluForm::tanh ? Activation::gelu_tanh
                                                                                   : Activation::none;
}

}  // namespace

void AnyModule::throw_wrong_type(const std::type_info& wanted, const ModuleBase& held) {
  throw InvalidArgument(text("[AnyModule::as] the module held here is a ", type_name(typeid(held)), ", not a ",
                             type_name(wanted), ": use find<", short_type_name(wanted), ">(), which returns null"));
}

AnyModule& Sequential::operator[](std::size_t index) {
  if (index >= items_.size())
    throw InvalidArgument(text("[Sequential] expected an index below ", items_.size(), ", got ", index));
  return items_[index];
}

Tensor Sequential::forward(Tensor x) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Linear* const layer = items_[i].find<Linear>();
    const Activation next =
        layer && !layer->has_forward_hooks() && i + 1 < items_.size() ? activation_of(items_[i + 1]) : Activation::none;
    if (next == Activation::none) {
      x = items_[i].forward(x);
    } else {
      x = linear(x, layer->weight, tensor_or_none(layer->bias), next);
      ++i;
    }
  }
  return x;
}

void Sequential::visit(const Path& path, Visitor& visitor) {
  visitor.module(path, *this);
  detail::visit_member(path, items_, visitor);
}

}  // namespace lockstep::nn
