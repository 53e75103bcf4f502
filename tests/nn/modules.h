// Modules with every kind of member.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

namespace lockstep::testing {

enum class Mode { plain, scaled };

/// A struct that is only a part of a module.
struct Affine {
  nn::Parameter scale{ones({2})};
  nn::Buffer mean{zeros({2})};
  auto members() { return nn::members("scale", scale, "mean", mean); }
};

struct Block : nn::Module<Block> {
  nn::Linear fc{2, 2};
  Affine affine;
  auto members() { return nn::members("fc", fc, "affine", affine); }
  Tensor forward(const Tensor& x) { return fc(x) * affine.scale + affine.mean; }
};

struct Everything : nn::Module<Everything> {
  std::vector<Block> blocks{2};
  std::array<nn::Parameter, 2> pair{nn::Parameter(ones({1})), nn::Parameter(zeros({3}))};
  std::map<std::string, nn::Linear> heads{{"left", nn::Linear(2, 1)}, {"right", nn::Linear(2, 3, {.bias = false})}};
  std::optional<nn::Parameter> absent;
  std::optional<Block> present{Block()};
  nn::Sequential body{nn::Linear(2, 4), nn::ReLU(), nn::Sequential{nn::Linear(4, 2), nn::Flatten()}};
  nn::Buffer count{tensor({0, 0})};
  double rate = 0.5;
  Mode mode = Mode::plain;
  bool flag = false;
  auto members() {
    return nn::members("blocks", blocks, "pair", pair, "heads", heads, "absent", absent, "present", present, "body",
                       body, "count", count, "rate", rate, "mode", mode, "flag", flag);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = body(x);
    for (Block& block : blocks) y = block(y);
    return heads.at("left")(y);
  }
};

inline std::vector<std::string> keys(const nn::ModuleBase& module) {
  std::vector<std::string> result;
  for (const auto& [key, value] : module.state_dict()) result.push_back(key);
  return result;
}

}  // namespace lockstep::testing
