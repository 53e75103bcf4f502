// Printing of modules, summaries, and functions as modules.
#include <gtest/gtest.h>

#include <sstream>

#include <lockstep/nn/batch_norm.h>
#include <lockstep/nn/conv.h>
#include <lockstep/nn/functional.h>
#include <lockstep/nn/layer_norm.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/pooling.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/nn/summary.h>
#include <lockstep/ops/arithmetic.h>
#include <lockstep/tensor/creation.h>

#include "support/thrown.h"

namespace lockstep {
namespace {

struct Block : nn::Module<Block> {
  nn::Linear fc{4, 2};
  nn::Sequential rest{nn::ReLU(), nn::Dropout(0.25), [](const Tensor& x) { return x * 2; }};
  std::vector<nn::LayerNorm> norms;
  Block() { norms.emplace_back(2); }
  auto members() { return nn::members("fc", fc, "rest", rest, "norms", norms); }
  Tensor forward(const Tensor& x) { return norms[0](rest(fc(x))); }
};

std::string printed(const nn::ModuleBase& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

TEST(ModuleText, IsATreeOfNamesAsPyTorchPrintsIt) {
  EXPECT_EQ(printed(Block()),
            "Block(\n"
            "  (fc): Linear(in_features=4, out_features=2, bias=True)\n"
            "  (rest): Sequential(\n"
            "    (0): ReLU()\n"
            "    (1): Dropout(p=0.25)\n"
            "    (2): Functional()\n"
            "  )\n"
            "  (norms.0): LayerNorm(normalized_shape=(2,), eps=1e-05, elementwise_affine=True)\n"
            ")");
}

TEST(ModuleText, OfALayerSaysItsSizes) {
  EXPECT_EQ(printed(nn::Linear(3, 5, {.bias = false})), "Linear(in_features=3, out_features=5, bias=False)");
  EXPECT_EQ(printed(nn::Conv2d(3, 16, 5, {.stride = 2, .padding = 1})),
            "Conv2d(3, 16, kernel_size=(5, 5), stride=(2, 2), padding=(1, 1))");
  EXPECT_EQ(printed(nn::MaxPool2d(2)), "MaxPool2d(kernel_size=2)");
  EXPECT_EQ(printed(nn::BatchNorm1d(8)),
            "BatchNorm1d(8, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  EXPECT_EQ(printed(nn::Embedding(10, 3)), "Embedding(10, 3)");
  EXPECT_EQ(printed(nn::LeakyReLU(0.5)), "LeakyReLU(negative_slope=0.5)");
}

TEST(ModuleText, CountsParameters) {
  EXPECT_EQ(Block().num_parameters(), 4 * 2 + 2 + 2 + 2);
  EXPECT_EQ(nn::ReLU().num_parameters(), 0);
}

TEST(Summary, HasShapesAndNumbersAndLeavesTheModelAsItWas) {
  Block block;
  std::string table = nn::summary(block, zeros({3, 4}));
  for (std::size_t at; (at = table.find("  ")) != table.npos;) table.erase(at, 1);  // ignores the columns' widths
  EXPECT_NE(table.find("\nBlock [3, 2] -\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\n (fc): Linear [3, 2] 10\n"), std::string::npos) << table;
  EXPECT_NE(table.find("\n (2): Functional [3, 2] -\n"), std::string::npos) << table;
  EXPECT_NE(table.find("Parameters: 14 (14 trained)"), std::string::npos) << table;
  EXPECT_TRUE(block.rest.is_training());
  EXPECT_EQ(nn::begin_call(block), nullptr);
}

TEST(Functional, IsAModuleInASequential) {
  nn::Sequential net([](const Tensor& x) { return x + 1; }, nn::ReLU());
  EXPECT_EQ(net(tensor({-3., 2.})).to_vector<float>(), (std::vector<float>{0, 3}));
  net.push_back([](const Tensor& x) { return x * 10; });
  const nn::Sequential other(net);
  EXPECT_EQ(net(tensor({1.})).item<float>(), 20);
  EXPECT_EQ(net.parameters().size(), 0u);
}

TEST(LoadStateDict, SaysWhatToDoWithAnothersKeys) {
  nn::Linear layer(2, 1);
  StateDict parallel, checkpoint;
  for (const auto& [key, value] : layer.state_dict()) {
    parallel.add("module." + key, value);
    checkpoint.add("model." + key, value);
  }
  EXPECT_NE(testing::thrown<InvalidArgument>([&] {
              layer.load_state_dict(parallel);
            }).find("load them with {.strip_prefix = \"module.\"}"),
            std::string::npos);
  EXPECT_NE(testing::thrown<InvalidArgument>([&] { layer.load_state_dict(checkpoint); }).find("keys of a checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
