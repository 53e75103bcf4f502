// Every reference case: values and gradients in float32 and float64, on the CPU and on a device, of inputs
// that lie densely in memory, with gaps, and transposed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>

#include <lockstep/autograd/autograd.h>
#include <lockstep/tensor/creation.h>

#include "ops/reference_rows.h"
#include "support/test_devices.h"

namespace lockstep::reference {
namespace {

enum class Layout { dense, gaps, transposed };

struct Setting {
  const char* name;
  DType dtype;
  bool on_device;
  Layout layout;
};

// The same values in memory of that layout.
Tensor laid_out(const Tensor& x, Layout layout) {
  if (layout == Layout::gaps) {
    Shape room = x.sizes();
    for (int d = 0; d < room.rank(); ++d) room[d] = 2 * room[d] + 1;
    Tensor view = full(x.dim() ? room : Shape{3}, 77, {.dtype = x.dtype(), .device = x.device()});
    if (x.dim() == 0) view = view[1];
    for (int d = 0; d < x.dim(); ++d) view = view.slice(d, 1, room[d], 2);
    return view.copy_(x);
  }
  Shape reversed;
  for (int d = x.dim(); d-- > 0;) reversed.push_back(d);
  return layout == Layout::transposed && x.dim() > 1 ? x.permute(reversed).contiguous().permute(reversed) : x.clone();
}

std::string at(const Shape& sizes, std::size_t position) {
  std::string index;
  for (int d = sizes.rank(); d-- > 0;) {
    index = std::to_string(std::int64_t(position) % sizes[d]) + (index.empty() ? "" : ", ") + index;
    position /= std::size_t(sizes[d]);
  }
  return "[" + index + "]";
}

// Relative to the element and, for what cancels, to the largest element.
void expect_close(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance) {
  if (!got.defined()) {
    ADD_FAILURE() << what << ": undefined";
    return;
  }
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  if (!is_floating(expected.dtype())) {
    ASSERT_EQ(got.dtype(), expected.dtype()) << what;
  }
  const auto actual = got.detach().to(Device(), kFloat64).to_vector<double>();
  const auto truth = expected.to(kFloat64).to_vector<double>();
  double largest = 0;
  for (const double value : truth) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double room =
        is_floating(expected.dtype()) ? tolerance * (std::abs(truth[i]) + largest) + tolerance * 1e-3 : 0;
    if (std::abs(actual[i] - truth[i]) <= room || (std::isnan(actual[i]) && std::isnan(truth[i]))) continue;
    ADD_FAILURE() << what << at(expected.sizes(), i) << ": expected " << truth[i] << ", got " << actual[i];
    return;
  }
}

class Reference : public ::testing::TestWithParam<Setting> {
 protected:
  static const Json& cases() {
    static const Json json = read_json(folder() + "/ops.json");
    return json;
  }
  static const Tensor& stored(const std::string& name) {
    static const auto tensors = read_tensors(folder() + "/ops.safetensors");
    return tensors.at(name);
  }
  static const Table& table() {
    static const Table rows = all_rows();
    return rows;
  }

  Tensor prepared(const std::string& name) const {
    const Tensor x = stored(name);
    const NoGrad guard;
    const Tensor moved = x.to(device_, is_floating(x.dtype()) ? GetParam().dtype : x.dtype());
    return laid_out(moved, GetParam().layout).detach();
  }

  void run(const Json& json) const {
    const Json& grads = json.at("grads");
    std::vector<Tensor> inputs;
    for (const std::string name : json.at("inputs")) {
      Tensor input = prepared(name);
      if (inputs.size() < grads.size() && !grads[inputs.size()].is_null()) input.requires_grad_();
      inputs.push_back(input);
    }
    const Call call(json, inputs);
    const Outputs outputs = table().at(json.at("op"))(call);
    for (const std::string& name : call.unread()) ADD_FAILURE() << "the row does not read the argument " << name;

    const double tolerance = GetParam().dtype == kFloat64 ? 1e-12 : 1e-5;
    ASSERT_EQ(outputs.size(), json.at("outputs").size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      expect_close("output " + std::to_string(i), outputs[i], stored(json.at("outputs")[i]), tolerance);

    std::vector<Tensor> roots, seeds;
    for (std::size_t i = 0; i < json.at("seeds").size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      seeds.push_back(prepared(json.at("seeds")[i]));
    }
    if (!roots.empty()) backward(roots, seeds);
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (!grads[i].is_null())
        expect_close("gradient " + std::to_string(i), inputs[i].grad(), stored(grads[i]), tolerance);
  }

  void SetUp() override {
    if (!GetParam().on_device) return;
    devices_.emplace(1);
    device_ = Device::cuda(0);
  }

  std::optional<TestDevices> devices_;
  Device device_;
};

TEST_P(Reference, Agrees) {
  for (const Json& json : cases()) {
    if (!table().contains(json.at("op"))) continue;
    SCOPED_TRACE(json.at("case").get<std::string>());
    try {
      run(json);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Reference,
                         ::testing::Values(Setting{"Float32Cpu", kFloat32, false, Layout::dense},
                                         Setting{"Float32CpuGaps", kFloat32, false, Layout::gaps},
                                         Setting{"Float32CpuTransposed", kFloat32, false, Layout::transposed},
                                         Setting{"Float32Device", kFloat32, true, Layout::dense},
                                         Setting{"Float32DeviceGaps", kFloat32, true, Layout::gaps},
                                         Setting{"Float32DeviceTransposed", kFloat32, true, Layout::transposed},
                                         Setting{"Float64Cpu", kFloat64, false, Layout::dense},
                                         Setting{"Float64CpuGaps", kFloat64, false, Layout::gaps},
                                         Setting{"Float64CpuTransposed", kFloat64, false, Layout::transposed},
                                         Setting{"Float64Device", kFloat64, true, Layout::dense},
                                         Setting{"Float64DeviceGaps", kFloat64, true, Layout::gaps},
                                         Setting{"Float64DeviceTransposed", kFloat64, true, Layout::transposed}),
                         [](const auto& setting) { return std::string(setting.param.name); });

// Of layers that do not exist yet.
const std::set<std::string> kOpsToCome = {"adaptive_avg_pool2d",
                                          "avg_pool2d",
                                          "conv1d",
                                          "conv2d",
                                          "conv3d",
                                          "conv_transpose2d",
                                          "gru",
                                          "interpolate",
                                          "lstm",
                                          "max_pool2d",
                                          "multihead_attention",
                                          "rnn",
                                          "scaled_dot_product_attention",
                                          "transformer_encoder_layer"};

// Skipped, with the names in its message, while ops are missing: of the repository's own folder those to come and no
// others, of another one any.
TEST(ReferenceTable, HasEveryOp) {
  const Table rows = all_rows();
  std::set<std::string> missing;
  std::size_t cases = 0;
  for (const Json& json : read_json(folder() + "/ops.json"))
    if (!rows.contains(json.at("op"))) {
      missing.insert(json.at("op"));
      ++cases;
    }
  const char* const other_folder = std::getenv("LOCKSTEP_REFERENCE");
  if (!other_folder || !*other_folder) {
    ASSERT_EQ(missing, kOpsToCome);
  }
  if (missing.empty()) return;
  std::string names;
  for (const std::string& name : missing) names += ' ' + name;
  GTEST_SKIP() << missing.size() << " ops (" << cases << " cases) are missing:" << names;
}

}  // namespace
}  // namespace lockstep::reference
