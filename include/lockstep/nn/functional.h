// Operations in namespace nn, as models name them: nn::cross_entropy(model(input), target).
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/attention.h>
#include <lockstep/ops/conv.h>
#include <lockstep/ops/distance.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/einsum.h>
#include <lockstep/ops/embedding_bag.h>
#include <lockstep/ops/fold.h>
#include <lockstep/ops/grid_sample.h>
#include <lockstep/ops/index.h>
#include <lockstep/ops/interpolate.h>
#include <lockstep/ops/layout.h>
#include <lockstep/ops/likelihood_loss.h>
#include <lockstep/ops/linalg.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/margin_loss.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/pooling.h>
#include <lockstep/ops/shuffle.h>
#include <lockstep/ops/softmax.h>
#include <lockstep/ops/weighted_mean.h>

namespace lockstep::nn {

/// Lets `namespace F = nn::functional` work as in libtorch.
namespace functional = lockstep::nn;

using lockstep::celu;
using lockstep::elu;
using lockstep::gelu;
using lockstep::glu;
using lockstep::hardshrink;
using lockstep::hardsigmoid;
using lockstep::hardswish;
using lockstep::hardtanh;
using lockstep::leaky_relu;
using lockstep::logsigmoid;
using lockstep::mish;
using lockstep::prelu;
using lockstep::relu;
using lockstep::relu6;
using lockstep::rrelu;
using lockstep::selu;
using lockstep::sigmoid;
using lockstep::silu;
using lockstep::softplus;
using lockstep::softshrink;
using lockstep::softsign;
using lockstep::tanh;
using lockstep::tanhshrink;
using lockstep::threshold;

using lockstep::alpha_dropout;
using lockstep::batch_norm;
using lockstep::bilinear;
using lockstep::conv1d;
using lockstep::conv2d;
using lockstep::conv3d;
using lockstep::conv_transpose1d;
using lockstep::conv_transpose2d;
using lockstep::conv_transpose3d;
using lockstep::dropout;
using lockstep::embedding_bag;
using lockstep::feature_alpha_dropout;
using lockstep::group_norm;
using lockstep::gumbel_softmax;
using lockstep::instance_norm;
using lockstep::layer_norm;
using lockstep::linear;
using lockstep::log_softmax;
using lockstep::rms_norm;
using lockstep::scaled_dot_product_attention;
using lockstep::softmax;
using lockstep::softmin;

using lockstep::binary_cross_entropy;
using lockstep::binary_cross_entropy_with_logits;
using lockstep::cosine_embedding_loss;
using lockstep::cross_entropy;
using lockstep::ctc_loss;
using lockstep::gaussian_nll_loss;
using lockstep::hinge_embedding_loss;
using lockstep::huber_loss;
using lockstep::kl_div;
using lockstep::l1_loss;
using lockstep::margin_ranking_loss;
using lockstep::mean_cross_entropy;
using lockstep::mean_nll_loss;
using lockstep::mse_loss;
using lockstep::multi_margin_loss;
using lockstep::multilabel_margin_loss;
using lockstep::multilabel_soft_margin_loss;
using lockstep::nll_loss;
using lockstep::poisson_nll_loss;
using lockstep::smooth_l1_loss;
using lockstep::soft_margin_loss;
using lockstep::triplet_margin_loss;

using lockstep::cdist;
using lockstep::cosine_similarity;
using lockstep::normalize;
using lockstep::one_hot;
using lockstep::pairwise_distance;

using lockstep::adaptive_avg_pool1d;
using lockstep::adaptive_avg_pool2d;
using lockstep::adaptive_avg_pool3d;
using lockstep::adaptive_max_pool1d;
using lockstep::adaptive_max_pool1d_with_indices;
using lockstep::adaptive_max_pool2d;
using lockstep::adaptive_max_pool2d_with_indices;
using lockstep::adaptive_max_pool3d;
using lockstep::adaptive_max_pool3d_with_indices;
using lockstep::avg_pool1d;
using lockstep::avg_pool2d;
using lockstep::avg_pool3d;
using lockstep::channel_shuffle;
using lockstep::fold;
using lockstep::grid_sample;
using lockstep::interpolate;
using lockstep::Interpolation;
using lockstep::local_response_norm;
using lockstep::lp_pool1d;
using lockstep::lp_pool2d;
using lockstep::lp_pool3d;
using lockstep::max_pool1d;
using lockstep::max_pool1d_with_indices;
using lockstep::max_pool2d;
using lockstep::max_pool2d_with_indices;
using lockstep::max_pool3d;
using lockstep::max_pool3d_with_indices;
using lockstep::max_unpool1d;
using lockstep::max_unpool2d;
using lockstep::max_unpool3d;
using lockstep::pad;
using lockstep::PadMode;
using lockstep::pixel_shuffle;
using lockstep::pixel_unshuffle;
using lockstep::unfold;

struct EmbeddingFunctionOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< The row that gets no gradient; negative: counted from the end.
};
/// The rows of weight [count, features] at the indices `input`, with the arguments of torch.nn.functional.embedding.
/// (lockstep::embedding takes the weight first, as torch.embedding.) Throws DTypeError, ShapeError, InvalidArgument.
LOCKSTEP_API Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFunctionOptions& options = {});

}  // namespace lockstep::nn
