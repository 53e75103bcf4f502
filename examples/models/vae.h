// A variational autoencoder (Kingma, Welling 2013) for images with pixels in [0, 1].
#pragma once

#include <lockstep/lockstep.h>

struct Vae : lockstep::nn::Module<Vae> {
  lockstep::nn::Linear encoder, mean_of, log_variance_of, decoder1, decoder2;

  Vae(std::int64_t pixels, std::int64_t hidden, std::int64_t latent)
      : encoder(pixels, hidden),
        mean_of(hidden, latent),
        log_variance_of(hidden, latent),
        decoder1(latent, hidden),
        decoder2(hidden, pixels) {}
  auto members() {
    return lockstep::nn::members("encoder", encoder, "mean", mean_of, "log_variance", log_variance_of, "decoder1",
                                 decoder1, "decoder2", decoder2);
  }

  struct Output {
    lockstep::Tensor logits, mean, log_variance;
    auto members() { return lockstep::members("logits", logits, "mean", mean, "log_variance", log_variance); }
  };

  // images: [batch, pixels]; noise: normal, [batch, latent]. (DataParallel scatters the noise along with the images.)
  Output forward(const lockstep::Tensor& images, const lockstep::Tensor& noise) {
    const lockstep::Tensor hidden = relu(encoder(images));
    const lockstep::Tensor mean = mean_of(hidden), log_variance = log_variance_of(hidden);
    return {decode(mean + noise * lockstep::exp(0.5 * log_variance)), mean, log_variance};
  }
  lockstep::Tensor decode(const lockstep::Tensor& latent) { return decoder2(relu(decoder1(latent))); }
};

// The negative evidence lower bound of an image, in nats: the mean over the batch.
inline lockstep::Tensor vae_loss(const Vae::Output& output, const lockstep::Tensor& images) {
  using namespace lockstep;
  const Tensor likelihood = binary_cross_entropy_with_logits(output.logits, images, {.reduction = Reduction::sum});
  const Tensor divergence = -0.5 * sum(1 + output.log_variance - square(output.mean) - exp(output.log_variance));
  return (likelihood + divergence) / double(images.size(0));
}
