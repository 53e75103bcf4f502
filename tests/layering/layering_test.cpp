// The repository follows its layering rules, and the check of the rules detects violations.
#include "layering/layers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace {

using layering::Tree;
using layering::violations;

Tree repository() {
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
  const std::set<std::string> extensions = {".h", ".hpp", ".inl", ".cpp", ".cu", ".cuh"};
  Tree tree;
  for (const char* top : {"include", "src", "tests", "examples", "benchmarks"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !extensions.contains(entry.path().extension().string())) continue;
      std::ifstream in(entry.path());
      tree[entry.path().lexically_relative(root).generic_string()].assign(std::istreambuf_iterator<char>(in), {});
    }
  }
  return tree;
}

// One file that includes another (which exists unless it belongs to another library).
std::vector<std::string> check(const std::string& includer, const std::string& target,
                               const std::string& included = "") {
  Tree tree = {{includer, "#pragma once\n#include " + target + "\n"}};
  if (!included.empty()) tree.emplace(included, "");
  return violations(tree);
}

TEST(Repository, KeepsItsLayers) {
  std::string report;
  for (const std::string& violation : violations(repository())) report += violation + '\n';
  EXPECT_EQ(report, "");
}

TEST(Repository, IsReadWhole) {
  const Tree tree = repository();
  EXPECT_TRUE(tree.contains("include/lockstep/core/error.h"));
  EXPECT_TRUE(tree.contains("src/runtime/backend.h"));
  EXPECT_TRUE(tree.contains("tests/layering/layering_test.cpp"));
}

TEST(Repository, FailsWhenOneForbiddenIncludeIsAdded) {
  Tree tree = repository();
  const std::size_t before = violations(tree).size();
  tree["src/core/error.cpp"] += "\n#include \"runtime/backend.h\"\n";
  EXPECT_EQ(violations(tree).size(), before + 1);
}

TEST(Rules, ALayerIncludesItselfAndLowerOnes) {
  EXPECT_EQ(check("src/nn/linear.cpp", "\"nn/init.h\"", "src/nn/init.h").size(), 0u);
  EXPECT_EQ(check("src/nn/linear.cpp", "<lockstep/nn/linear.h>", "include/lockstep/nn/linear.h").size(), 0u);
  EXPECT_EQ(check("src/train/trainer.cpp", "<lockstep/optim/sgd.h>", "include/lockstep/optim/sgd.h").size(), 0u);
  EXPECT_EQ(check("include/lockstep/nn/linear.h", "<lockstep/ops/matmul.h>", "include/lockstep/ops/matmul.h").size(),
            0u);
}

TEST(Rules, UpwardIncludesAreForbidden) {
  EXPECT_EQ(check("src/ops/add.cpp", "\"nn/linear.h\"", "src/nn/linear.h").size(), 1u);
  EXPECT_EQ(check("src/core/error.cpp", "<lockstep/runtime/device.h>", "include/lockstep/runtime/device.h").size(), 1u);
  EXPECT_EQ(
      check("include/lockstep/tensor/tensor.h", "<lockstep/autograd/graph.h>", "include/lockstep/autograd/graph.h")
          .size(),
      1u);
  EXPECT_EQ(check("src/tensor/view.cpp", "\"../ops/add.h\"", "src/ops/add.h").size(), 1u);
  EXPECT_EQ(check("src/tensor/view.cpp", "\t \"ops/add.h\"", "src/ops/add.h").size(), 1u);
}

TEST(Rules, SiblingLayersDoNotIncludeEachOther) {
  EXPECT_EQ(check("src/optim/sgd.cpp", "<lockstep/data/loader.h>", "include/lockstep/data/loader.h").size(), 1u);
  EXPECT_EQ(check("src/io/safetensors.cpp", "\"optim/sgd.h\"", "src/optim/sgd.h").size(), 1u);
  EXPECT_EQ(check("src/optim/sgd.cpp", "<lockstep/nn/module.h>", "include/lockstep/nn/module.h").size(), 1u);
  EXPECT_EQ(check("include/lockstep/io/safetensors.h", "<lockstep/nn/module.h>", "include/lockstep/nn/module.h").size(),
            1u);
}

TEST(Rules, SiblingBackendsDoNotIncludeEachOther) {
  EXPECT_EQ(check("src/backends/sim/sim.cpp", "\"backends/cpu/cpu.h\"", "src/backends/cpu/cpu.h").size(), 1u);
  EXPECT_EQ(check("src/backends/cuda/cuda.cu", "\"backends/sim/sim.h\"", "src/backends/sim/sim.h").size(), 1u);
  EXPECT_EQ(check("src/backends/cpu/cpu.cpp", "\"../cuda/cuda.h\"", "src/backends/cuda/cuda.h").size(), 1u);
  EXPECT_EQ(check("src/backends/sim/sim.cpp", "\"sim.h\"", "src/backends/sim/sim.h").size(), 0u);
  EXPECT_EQ(check("src/backends/sim/sim.cpp", "\"runtime/backend.h\"", "src/runtime/backend.h").size(), 0u);
}

TEST(Rules, TheHostsKernelsAreBelowTheBackends) {
  EXPECT_EQ(check("src/backends/cpu/cpu.cpp", "\"cpu/parallel.h\"", "src/cpu/parallel.h").size(), 0u);
  EXPECT_EQ(check("src/backends/sim/sim.cpp", "\"cpu/parallel.h\"", "src/cpu/parallel.h").size(), 0u);
  EXPECT_EQ(check("src/cpu/parallel.cpp", "\"backends/cpu/cpu.h\"", "src/backends/cpu/cpu.h").size(), 1u);
}

TEST(Rules, OnlyTheRuntimeReachesABackend) {
  EXPECT_EQ(check("src/runtime/registry.cpp", "\"backends/cpu/cpu.h\"", "src/backends/cpu/cpu.h").size(), 0u);
  EXPECT_EQ(check("src/ops/add.cpp", "\"backends/cuda/cuda.h\"", "src/backends/cuda/cuda.h").size(), 1u);
}

TEST(Rules, PublicHeadersIncludePublicHeaders) {
  EXPECT_EQ(check("include/lockstep/nn/linear.h", "\"nn/init.h\"", "src/nn/init.h").size(), 1u);
  EXPECT_EQ(check("include/lockstep/nn/linear.h", "\"nn/util.h\"", "tests/nn/util.h").size(), 1u);
}

TEST(Rules, VendorHeadersStayInTheirBackend) {
  for (const char* header : {"<cuda_runtime.h>", "<cublasLt.h>", "<cudnn.h>", "<nccl.h>"}) {
    EXPECT_EQ(check("include/lockstep/runtime/stream.h", header).size(), 1u) << header;
    EXPECT_EQ(check("src/backends/sim/sim.cpp", header).size(), 1u) << header;
    EXPECT_EQ(check("src/ops/add.cu", header).size(), 1u) << header;
    EXPECT_EQ(check("src/backends/cuda/cuda.cpp", header).size(), 0u) << header;
  }
  for (const char* header : {"<tbb/parallel_for.h>", "<oneapi/tbb.h>", "<dnnl.hpp>"}) {
    EXPECT_EQ(check("include/lockstep/ops/matmul.h", header).size(), 1u) << header;
    EXPECT_EQ(check("src/backends/cpu/cpu.cpp", header).size(), 1u) << header;
    EXPECT_EQ(check("src/cpu/products/matmul.cpp", header).size(), 0u) << header;
  }
  EXPECT_EQ(check("src/data/loader.cpp", "<tbb/task_group.h>").size(), 0u);
  EXPECT_EQ(check("src/data/loader.cpp", "<dnnl.hpp>").size(), 1u);
  EXPECT_EQ(check("include/lockstep/parallel/world.h", "<mpi.h>").size(), 1u);
}

TEST(Rules, ThisLibrarysOwnHeadersAreNoVendors) {
  EXPECT_EQ(check("src/ops/add.cpp", "\"cuda_words.h\"", "src/ops/cuda_words.h").size(), 0u);
  EXPECT_EQ(check("src/core/error.cpp", "<vector>").size(), 0u);
}

TEST(Rules, TestsIncludeTheirLayerAndLowerOnes) {
  EXPECT_EQ(check("tests/runtime/sim_test.cpp", "\"backends/sim/sim.h\"", "src/backends/sim/sim.h").size(), 0u);
  EXPECT_EQ(check("tests/tensor/view_test.cpp", "<lockstep/nn/linear.h>", "include/lockstep/nn/linear.h").size(), 1u);
  EXPECT_EQ(check("src/core/error.cpp", "\"core/fake.h\"", "tests/core/fake.h").size(), 1u);
}

TEST(Rules, OptimizersAndFilesAreTestedOnModules) {
  for (const char* test : {"tests/optim/sgd_test.cpp", "tests/io/safetensors_test.cpp"}) {
    EXPECT_EQ(check(test, "<lockstep/nn/linear.h>", "include/lockstep/nn/linear.h").size(), 0u) << test;
    EXPECT_EQ(check(test, "<lockstep/train/trainer.h>", "include/lockstep/train/trainer.h").size(), 1u) << test;
  }
}

TEST(Rules, TheUmbrellaIsForProgramsOnly) {
  const std::string umbrella = "include/lockstep/lockstep.h";
  EXPECT_EQ(check("examples/devices.cpp", "<lockstep/lockstep.h>", umbrella).size(), 0u);
  EXPECT_EQ(check(umbrella, "<lockstep/train/trainer.h>", "include/lockstep/train/trainer.h").size(), 0u);
  EXPECT_EQ(check("src/train/trainer.cpp", "<lockstep/lockstep.h>", umbrella).size(), 1u);
}

TEST(Rules, EveryFileOfTheLibraryIsInALayer) {
  EXPECT_EQ(violations({{"src/helpers/misc.cpp", ""}}).size(), 1u);
  EXPECT_EQ(violations({{"include/lockstep/misc.h", ""}}).size(), 1u);
}

}  // namespace
