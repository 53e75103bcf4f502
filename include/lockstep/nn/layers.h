// Layers. Normalization is in batch_norm.h and layer_norm.h. Copies of layers with parameters are explicit:
// copy(layer).
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
  /// Positional arguments: Linear(3, 2, false).
  template <std::same_as<bool> Bool>
  Linear(std::int64_t in, std::int64_t out, Bool with_bias) : Linear(in, out, LinearOptions{.bias = with_bias}) {}
  LOCKSTEP_COPIED_IF_ASKED(Linear);

  std::int64_t in_features, out_features;  ///< As given. Assigning them changes no parameter.
  Parameter weight;
  std::optional<Parameter> bias;

  auto members() { return nn::members("weight", weight, "bias", bias); }
  Tensor forward(const Tensor& x) const;
  void pretty_print(std::ostream& out) const override;
};

/// A Linear that takes its in_features, device and dtype from its first batch.
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
  std::optional<std::int64_t> padding_idx = {};  ///< The row that is 0 and not trained; negative: from the end.
  std::optional<double> max_norm = {};  ///< Each lookup first scales its rows of a larger norm down to this norm.
  double norm_type = 2;                 ///< The p of that p-norm.
  TensorOptions tensor = {};            ///< Device and dtype of the weight.
};

/// Options of Embedding::from_pretrained().
struct PretrainedOptions {
  bool freeze = true;                            ///< True: the weight is not trained.
  std::optional<std::int64_t> padding_idx = {};  ///< As in EmbeddingOptions; the row keeps its given values.
  std::optional<double> max_norm = {};           ///< As in EmbeddingOptions.
  double norm_type = 2;                          ///< As in EmbeddingOptions.
};

/// The rows of weight [count, features] at `index`: [index's sizes, features]. Initially normal with variance 1.
class LOCKSTEP_API Embedding : public Module<Embedding> {
 public:
  /// Throws InvalidArgument for negative sizes and a padding index out of range.
  Embedding(std::int64_t count, std::int64_t features, const EmbeddingOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(Embedding);
  /// An Embedding with a copy of this weight [count, features]. Throws ShapeError, InvalidArgument.
  static Embedding from_pretrained(const Tensor& embeddings, const PretrainedOptions& options = {});

  std::int64_t num_embeddings, embedding_dim;  ///< As given. Assigning them changes no parameter.
  Parameter weight;

  auto members() { return nn::members("weight", weight, "padding_idx", padding_idx_); }
  void pretty_print(std::ostream& out) const override;
  /// If max_norm is set, forward() changes the weight. It then throws InvalidArgument in a replica: replicas look up
  /// different rows, so their weights would differ.
  Tensor forward(const Tensor& index) const;

 private:
  std::optional<std::int64_t> padding_idx_;
  std::optional<double> max_norm_;
  double norm_type_;
};

/// In training, drops elements with probability p, as dropout() does: the same elements for any number of devices.
class LOCKSTEP_API Dropout : public Module<Dropout> {
 public:
  /// Throws InvalidArgument unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);

  double p;

  auto members() { return nn::members("p", p); }
  Tensor forward(const Tensor& x) const;
};

/// [batch, a, b, ...] -> [batch, a * b * ...]. If a range of dimensions is given, joins those instead.
class LOCKSTEP_API Flatten : public Module<Flatten> {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1) : start_dim_(start_dim), end_dim_(end_dim) {}
  Tensor forward(const Tensor& x) const;
  void pretty_print(std::ostream& out) const override;

 private:
  std::int64_t start_dim_, end_dim_;
};

/// Splits dimension `dim` into the given sizes: Unflatten(1, {3, 4}) turns [batch, 12] into [batch, 3, 4]. One size may
/// be -1.
class LOCKSTEP_API Unflatten : public Module<Unflatten> {
 public:
  Unflatten(std::int64_t dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {}
  /// Throws ShapeError if the sizes do not divide the dimension.
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace lockstep::nn
