// Operations under the names that models are written in: nn::cross_entropy(model(input), target).
#pragma once

#include <lockstep/ops/activation.h>
#include <lockstep/ops/attention.h>
#include <lockstep/ops/conv.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/softmax.h>

namespace lockstep::nn {

using lockstep::elu;
using lockstep::gelu;
using lockstep::hardswish;
using lockstep::hardtanh;
using lockstep::leaky_relu;
using lockstep::mish;
using lockstep::relu;
using lockstep::selu;
using lockstep::sigmoid;
using lockstep::silu;
using lockstep::softplus;
using lockstep::tanh;

using lockstep::batch_norm;
using lockstep::conv1d;
using lockstep::conv2d;
using lockstep::conv3d;
using lockstep::conv_transpose1d;
using lockstep::conv_transpose2d;
using lockstep::conv_transpose3d;
using lockstep::dropout;
using lockstep::group_norm;
using lockstep::instance_norm;
using lockstep::layer_norm;
using lockstep::linear;
using lockstep::log_softmax;
using lockstep::scaled_dot_product_attention;
using lockstep::softmax;

using lockstep::binary_cross_entropy;
using lockstep::binary_cross_entropy_with_logits;
using lockstep::cross_entropy;
using lockstep::huber_loss;
using lockstep::kl_div;
using lockstep::l1_loss;
using lockstep::mse_loss;
using lockstep::nll_loss;
using lockstep::smooth_l1_loss;

}  // namespace lockstep::nn
