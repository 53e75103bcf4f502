// Classifies a sequence after its last step.
#pragma once

#include <lockstep/lockstep.h>

struct LstmClassifier : lockstep::nn::Module<LstmClassifier> {
  lockstep::nn::LSTM lstm;
  lockstep::nn::Linear head;

  LstmClassifier(std::int64_t features, std::int64_t hidden, std::int64_t classes, std::int64_t layers)
      : lstm(features, hidden, {.num_layers = layers, .batch_first = true}), head(hidden, classes) {}
  auto members() { return lockstep::nn::members("lstm", lstm, "head", head); }

  // x: [batch, steps, features]. Returns logits: [batch, classes].
  lockstep::Tensor forward(const lockstep::Tensor& x) { return head(lstm(x).output.select(1, -1)); }
};
