// ONNX's node cases (Debian's libonnx-testdata, or the folder LOCKSTEP_ONNX_DATA): small models with inputs and
// outputs, made independently of Lockstep. A case with an op, dtype or form that Lockstep does not have counts as not
// applicable, with the reason. LOCKSTEP_ONNX_TABLE names a file for the table of all cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "onnx/rows.h"
#include "support/test_devices.h"

namespace lockstep::onnx {
namespace {

namespace fs = std::filesystem;

std::string data_folder() {
  const char* const given = std::getenv("LOCKSTEP_ONNX_DATA");
  return given && *given ? given : "/usr/share/libonnx-testdata/data/node";
}

Table all_rows() {
  Table table;
  add_conv_rows(table);
  add_elementwise_rows(table);
  add_recurrent_rows(table);
  add_functional_rows(table);
  add_structure_rows(table);
  add_layer_rows(table);
  add_window_rows(table);
  return table;
}

// Runs the model. Throws for missing ops before it computes anything.
Tensors run(const Model& model, const Table& table, const Tensors& inputs, Device device) {
  for (const Node& node : model.nodes)
    if (!table.contains(node.op)) throw NotApplicable("no op " + node.op);
  std::map<std::string, Tensor> values = model.initializers;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[model.inputs.at(i)] = inputs[i];
  for (const Node& node : model.nodes) {
    Tensors arguments;
    for (const std::string& name : node.inputs) arguments.push_back(name.empty() ? Tensor() : values.at(name));
    const Tensors results = table.at(node.op)(node, arguments);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size()) throw NotApplicable("output " + std::to_string(i) + " of " + node.op);
      const bool from_host = node.op == "Constant" || node.op == "Shape" || node.op == "Size";
      values[node.outputs[i]] = from_host ? results[i].to(device) : results[i];
    }
  }
  Tensors outputs;
  for (const std::string& name : model.outputs) outputs.push_back(values.at(name));
  return outputs;
}

// ONNX compares to 1e-3 (onnx/backend/test/runner); here the tolerance is rounding. But ONNX's expected windows were
// computed with 3.1415 for pi (test_hannwindow has 0.345474; the correct value is 0.345492).
double tolerance(const std::string& name, DType dtype) {
  if (name.find("window_") != std::string::npos) return 1e-4;
  return size_of(dtype) == 2 ? 1e-2 : 1e-5;
}

std::string difference(const Tensor& got, const Tensor& expected, double relative) {
  std::ostringstream out;
  if (got.sizes() != expected.sizes()) {
    out << "expected the shape " << expected.sizes() << ", got " << got.sizes();
    return out.str();
  }
  const auto actual = got.cpu().to(kFloat64).to_vector<double>(), truth = expected.to(kFloat64).to_vector<double>();
  double largest = 0;
  for (const double value : truth)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double room = relative * (std::abs(truth[i]) + largest) + 1e-7;
    if (actual[i] == truth[i] || std::abs(actual[i] - truth[i]) <= room) continue;
    if (std::isnan(actual[i]) && std::isnan(truth[i])) continue;
    out << "element " << i << ": expected " << truth[i] << ", got " << actual[i];
    return out.str();
  }
  return {};
}

struct Counts {
  int passed = 0, failed = 0, not_applicable = 0;
};

class OnnxNodes : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!fs::is_directory(data_folder())) GTEST_SKIP() << "no " << data_folder() << ": install libonnx-testdata";
    if (!GetParam()) return;
    devices_.emplace(1);
    device_ = Device::cuda(0);
  }

  void run_case(const fs::path& folder, const Table& table) const {
    const Model model = read_model((folder / "model.onnx").string());
    const fs::path data = folder / "test_data_set_0";
    const auto tensors = [&](const char* kind, std::size_t most) {
      Tensors found;
      for (std::size_t i = 0; i < most; ++i) {
        const fs::path file = data / (kind + std::string("_") + std::to_string(i) + ".pb");
        if (!fs::exists(file)) break;
        found.push_back(read_tensor(file.string()));
      }
      return found;
    };
    Tensors inputs = tensors("input", model.inputs.size());
    for (Tensor& x : inputs) x = x.to(device_);
    const Tensors expected = tensors("output", model.outputs.size());
    const Tensors outputs = run(model, table, inputs, device_);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (const std::string wrong =
              difference(outputs[i], expected[i], tolerance(folder.filename().string(), expected[i].dtype()));
          !wrong.empty())
        throw std::runtime_error("output " + std::to_string(i) + ": " + wrong);
  }

  std::optional<TestDevices> devices_;
  Device device_;
};

TEST_P(OnnxNodes, GiveWhatOnnxSays) {
  const Table table = all_rows();
  const char* const table_file = std::getenv("LOCKSTEP_ONNX_TABLE");
  std::ofstream report(table_file && *table_file ? table_file : "/dev/null");
  Counts counts;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(data_folder())) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    try {
      run_case(folder, table);
      ++counts.passed;
      report << name << "\tpassed\n";
    } catch (const NotApplicable& reason) {
      ++counts.not_applicable;
      report << name << "\tnot applicable\t" << reason.what() << '\n';
    } catch (const std::exception& error) {
      ++counts.failed;
      report << name << "\tfailed\t" << error.what() << '\n';
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  std::cout << counts.passed << " passed, " << counts.failed << " failed, " << counts.not_applicable
            << " not applicable\n";
  EXPECT_GE(counts.passed, 450);
}

INSTANTIATE_TEST_SUITE_P(, OnnxNodes, ::testing::Values(false, true),
                         [](const auto& device) { return device.param ? "Device" : "Cpu"; });

}  // namespace
}  // namespace lockstep::onnx
