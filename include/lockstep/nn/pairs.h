// Layers of two inputs.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/nn/module.h>
#include <lockstep/ops/distance.h>
#include <lockstep/ops/einsum.h>

namespace lockstep::nn {

struct BilinearOptions {
  bool bias = true;
  TensorOptions tensor = {};  ///< Device and dtype of the parameters.
};

/// bilinear() with a weight [out, in1, in2] and a bias [out], both initially uniform in +-1/sqrt(in1).
class LOCKSTEP_API Bilinear : public Module<Bilinear> {
 public:
  /// Throws InvalidArgument for sizes below 1.
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           const BilinearOptions& options = {});
  LOCKSTEP_COPIED_IF_ASKED(Bilinear);

  Parameter weight;
  std::optional<Parameter> bias;

  auto members() { return nn::members("weight", weight, "bias", bias); }
  Tensor forward(const Tensor& a, const Tensor& b) const {
    return bilinear(a, b, weight, bias ? Tensor(*bias) : Tensor());
  }
};

struct LOCKSTEP_API CosineSimilarity : Module<CosineSimilarity> {
  explicit CosineSimilarity(std::int64_t along = 1, double least = 1e-8) : dim(along), eps(least) {}
  std::int64_t dim;
  double eps;
  auto members() { return nn::members("dim", dim, "eps", eps); }
  Tensor forward(const Tensor& a, const Tensor& b) const { return cosine_similarity(a, b, dim, eps); }
};

struct LOCKSTEP_API PairwiseDistance : Module<PairwiseDistance> {
  explicit PairwiseDistance(const PairwiseDistanceOptions& given = {}) : options(given) {}
  PairwiseDistanceOptions options;
  Tensor forward(const Tensor& a, const Tensor& b) const { return pairwise_distance(a, b, options); }
};

}  // namespace lockstep::nn
