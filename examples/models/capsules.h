// A capsule network with dynamic routing (Sabour, Frosst, Hinton 2017): a capsule is a vector whose length is the
// probability that an entity is present, and whose direction describes its pose.
#pragma once

#include <lockstep/lockstep.h>

// Shortens each vector along the last dimension to a length below 1.
inline lockstep::Tensor squash(const lockstep::Tensor& s) {
  const lockstep::Tensor squared = lockstep::sum(lockstep::square(s), {-1}, true);
  return s * (squared / ((1 + squared) * lockstep::sqrt(squared + 1e-8)));
}

struct CapsuleNet : lockstep::nn::Module<CapsuleNet> {
  static constexpr std::int64_t kPrimarySize = 8, kClassSize = 16;
  static constexpr int kRounds = 3;

  lockstep::nn::Conv2d conv, primary;
  lockstep::nn::Parameter weight;  // [capsules, classes, kClassSize, kPrimarySize]

  // Images: [batch, 1, image_size, image_size].
  CapsuleNet(std::int64_t image_size, std::int64_t channels, std::int64_t primary_types, std::int64_t classes)
      : conv(1, channels, 9),
        primary(channels, primary_types * kPrimarySize, 9, {.stride = 2}),
        weight(0.05 * lockstep::randn({capsules(image_size, primary_types), classes, kClassSize, kPrimarySize})) {}
  auto members() { return lockstep::nn::members("conv", conv, "primary", primary, "weight", weight); }

  // The lengths of the class capsules: [batch, classes].
  lockstep::Tensor forward(const lockstep::Tensor& images) {
    using namespace lockstep;
    const Tensor x = primary(relu(conv(images)));  // [batch, types * kPrimarySize, height, width]
    const std::int64_t batch = x.size(0), types = x.size(1) / kPrimarySize;
    const Tensor u =
        squash(x.reshape({batch, types, kPrimarySize, -1}).transpose(2, 3).reshape({batch, -1, kPrimarySize}));
    // Each capsule's prediction of each class capsule: [capsules, batch, classes, kClassSize].
    const Tensor flat = weight.reshape({weight.size(0), weight.size(1) * kClassSize, kPrimarySize});
    const Tensor votes = bmm(u.transpose(0, 1), flat.transpose(1, 2)).view({-1, batch, weight.size(1), kClassSize});
    const Tensor fixed = votes.detach();  // routing coefficients are not trained
    Tensor agreement = zeros({votes.size(0), batch, weight.size(1), 1}, {.device = x.device()});
    for (int round = 1; round < kRounds; ++round) {
      const Tensor v = squash(sum(softmax(agreement, 2) * fixed, {0}));
      agreement = agreement + sum(fixed * v, {-1}, true);
    }
    const Tensor v = squash(sum(softmax(agreement, 2) * votes, {0}));
    return sqrt(sum(square(v), {-1}) + 1e-8);
  }

 private:
  static std::int64_t capsules(std::int64_t image_size, std::int64_t types) {
    const std::int64_t side = (image_size - 8 - 9) / 2 + 1;
    return types * side * side;
  }
};

// The margin loss: penalizes a length below 0.9 for the present class and above 0.1 for the others.
inline lockstep::Tensor capsule_loss(const lockstep::Tensor& lengths, const lockstep::Tensor& target) {
  using namespace lockstep;
  const Tensor present = one_hot(target, lengths.size(1)).to(lengths.dtype());
  const Tensor missed = square(relu(0.9 - lengths)), wrong = square(relu(lengths - 0.1));
  return mean(sum(present * missed + 0.5 * (1 - present) * wrong, {1}));
}
