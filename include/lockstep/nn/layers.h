// Layers. Normalization is in batch_norm.h and layer_norm.h. Layers that hold parameters are not copied unasked.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include <lockstep/nn/activations.h>
#include <lockstep/nn/module.h>

namespace lockstep::nn {

struct LinearOptions {
  bool bias = true;
  TensorOptions tensor = {};  ///< Device and dtype of the parameters.
};

/// x weight^T + bias. x: [..., in]; weight: [out, in]; bias: [out]. Both start uniform in +-1/sqrt(in).
class LOCKSTEP_API Linear : public Module<Linear> {
 public:
  /// Throws InvalidArgument for negative sizes.
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  /// By position: Linear(3, 2, false).
  template <std::same_as<bool> Bool>
  Linear(std::int64_t in, std::int64_t out, Bool with_bias) : Linear(in, out, LinearOptions{.bias = with_bias}) {}
  LOCKSTEP_COPIED_IF_ASKED(Linear);

  std::int64_t in_features, out_features;  ///< As given. To be read: changing one changes no parameter.
  Parameter weight;
  std::optional<Parameter> bias;

  auto members() { return nn::members("weight", weight, "bias", bias); }
  Tensor forward(const Tensor& x) const;
  void pretty_print(std::ostream& out) const override;
};

/// A Linear whose in_features come from its first batch, on that batch's device and of its dtype.
class LOCKSTEP_API LazyLinear : public Module<LazyLinear> {
 public:
  explicit LazyLinear(std::int64_t out_features, const LinearOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(LazyLinear);

  Parameter weight;
  std::optional<Parameter> bias;

  auto members() { return nn::members("weight", weight, "bias", bias); }
  Tensor forward(const Tensor& x);

 private:
  std::int64_t out_features_;
};

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< This row is 0 and is not trained; negative: from the end.
  std::optional<double> max_norm = {};  ///< Before a lookup the rows it names whose norm is larger are scaled to it.
  double norm_type = 2;                 ///< Of that norm.
  TensorOptions tensor = {};            ///< Device and dtype of the weight.
};

/// Of Embedding::from_pretrained().
struct PretrainedOptions {
  bool freeze = true;                            ///< The weight is not trained.
  std::optional<std::int64_t> padding_idx = {};  ///< As EmbeddingOptions have it; the row stays as it is given.
  std::optional<double> max_norm = {};           ///< As EmbeddingOptions have it.
  double norm_type = 2;                          ///< As EmbeddingOptions have it.
};

/// The rows of weight [count, features] that index names: [index's sizes, features]. Normal at first, with variance 1.
class LOCKSTEP_API Embedding : public Module<Embedding> {
 public:
  /// Throws InvalidArgument for negative sizes and a padding index out of range.
  Embedding(std::int64_t count, std::int64_t features, const EmbeddingOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(Embedding);
  /// One with a copy of this weight [count, features]. Throws ShapeError, InvalidArgument.
  static Embedding from_pretrained(const Tensor& embeddings, const PretrainedOptions& options = {});

  std::int64_t num_embeddings, embedding_dim;  ///< As given. To be read: changing one changes no parameter.
  Parameter weight;

  auto members() { return nn::members("weight", weight, "padding_idx", padding_idx_); }
  void pretty_print(std::ostream& out) const override;
  /// With max_norm it changes the weight: throws InvalidArgument on a replica, since others look up other rows.
  Tensor forward(const Tensor& index) const;

 private:
  std::optional<std::int64_t> padding_idx_;
  std::optional<double> max_norm_;
  double norm_type_;
};

/// In training, drops elements with probability p, as dropout() does: the same ones for any number of devices.
class LOCKSTEP_API Dropout : public Module<Dropout> {
 public:
  /// Throws InvalidArgument unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);

  double p;

  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const;
};

/// [batch, a, b, ...] -> [batch, a * b * ...], or the given range of dimensions.
class LOCKSTEP_API Flatten : public Module<Flatten> {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_dim_(start_dim), end_dim_(end_dim) {}
  Tensor forward(const Tensor& x) const;
  void pretty_print(std::ostream& out) const override;

 private:
  std::int64_t start_dim_, end_dim_;
};

/// The dimension `dim` as several, of the given sizes: Unflatten(1, {3, 4}) makes [batch, 12] [batch, 3, 4]. One size
/// may be -1.
class LOCKSTEP_API Unflatten : public Module<Unflatten> {
 public:
  Unflatten(std::int64_t dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {}
  /// Throws ShapeError for sizes that do not divide the dimension.
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace lockstep::nn
