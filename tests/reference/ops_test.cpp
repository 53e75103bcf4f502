// Every reference case: values and gradients in each floating dtype, on the CPU and on a device, with inputs that are
// dense in memory, have gaps, or are transposed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>

#include <lockstep/autograd/autograd.h>
#include <lockstep/tensor/creation.h>

#include "reference/rows.h"
#include "support/test_devices.h"

namespace lockstep::reference {
namespace {

enum class Layout { dense, gaps, transposed };

struct Setting {
  std::string name;
  DType dtype;
  bool on_device;
  Layout layout;
  double tolerance;
};

// The same values in memory with that layout.
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

double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double value : x.detach().to(Device(), kFloat64).to_vector<double>())
    largest = std::max(largest, std::abs(value));
  return largest;
}

// The tolerance is relative to the element, plus, for terms that cancel, to the largest element (or to `largest` if
// that is greater).
void expect_close(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance,
                  double largest = 0) {
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
  largest = std::max(largest, largest_of(expected));
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
  static const Cases& all() {
    static const Cases cases = read_cases();
    return cases;
  }
  static const std::vector<Json>& cases() { return all().list; }
  static const Tensor& stored(const std::string& name) { return all().tensors.at(name); }
  static const Table& table() {
    static const Table rows = all_rows();
    return rows;
  }

  // The results of a case: outputs, then the gradient of each input, undefined if it has none.
  struct Results {
    std::vector<Tensor> outputs, gradients;
  };

  Tensor prepared(const std::string& name) const {
    const Tensor x = stored(name);
    const NoGrad guard;
    const Tensor moved = x.to(device_, is_floating(x.dtype()) ? GetParam().dtype : x.dtype());
    return laid_out(moved, GetParam().layout).detach();
  }

  // This library's results for a case, with each of its tensors converted by `prepare`.
  template <class Prepare>
  static Results computed(const Json& json, const Prepare& prepare) {
    const Json& grads = json.at("grads");
    std::vector<Tensor> inputs;
    for (const std::string name : json.at("inputs")) {
      Tensor input = prepare(name);
      if (inputs.size() < grads.size() && !grads[inputs.size()].is_null()) input.requires_grad_();
      inputs.push_back(input);
    }
    const Call call(json, inputs);
    const Outputs outputs = table().at(json.at("op"))(call);
    for (const std::string& name : call.unread()) ADD_FAILURE() << "the row does not read the argument " << name;
    Results results{outputs, {}};
    std::vector<Tensor> roots, seeds;
    for (std::size_t i = 0; i < json.at("seeds").size(); ++i) {
      if (!outputs.at(i).requires_grad()) continue;
      roots.push_back(outputs[i]);
      seeds.push_back(prepare(json.at("seeds")[i]));
    }
    if (!roots.empty()) backward(roots, seeds);
    for (const Tensor& input : inputs) results.gradients.push_back(input.grad());
    return results;
  }

  // PyTorch's float64 results. A 16-bit type cannot hold PyTorch's inputs: then this library's float64 results for the
  // rounded inputs, which other settings compare with PyTorch's.
  Results expected(const Json& json) const {
    if (size_of(GetParam().dtype) == 2)
      return computed(json, [this](const std::string& name) {
        const NoGrad guard;
        const Tensor x = prepared(name).to(Device());
        return is_floating(x.dtype()) ? x.to(kFloat64) : x;
      });
    Results results;
    for (const std::string name : json.at("outputs")) results.outputs.push_back(stored(name));
    for (const Json& name : json.at("grads")) results.gradients.push_back(name.is_null() ? Tensor() : stored(name));
    return results;
  }

  void run(const Json& json) const {
    const Results got = computed(json, [this](const std::string& name) { return prepared(name); });
    const Results truth = expected(json);
    ASSERT_EQ(got.outputs.size(), json.at("outputs").size());
    for (std::size_t i = 0; i < got.outputs.size(); ++i)
      expect_close("output " + std::to_string(i), got.outputs[i], truth.outputs[i], GetParam().tolerance);
    // Gradients in a 16-bit type come from 16-bit intermediate results, which are as large as the seeds. If they
    // cancel, the rest is off by their rounding, as in PyTorch.
    const bool narrow = size_of(GetParam().dtype) == 2;
    double fed = 0;
    for (const Json& name : json.at("seeds"))
      if (narrow && !name.is_null()) fed = std::max(fed, largest_of(stored(name)));
    for (std::size_t i = 0; i < json.at("grads").size(); ++i)
      if (!json.at("grads")[i].is_null())
        expect_close("gradient " + std::to_string(i), got.gradients[i], truth.gradients[i],
                     (narrow ? 2 : 1) * GetParam().tolerance, fed);
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

std::vector<Setting> all_settings() {
  struct Type {
    const char* name;
    DType dtype;
    double tolerance;
  };
  struct Place {
    const char* name;
    bool on_device;
    Layout layout;
  };
  std::vector<Setting> settings;
  // The tolerance of 16-bit types allows four roundings.
  for (const Type& type : {Type{"Float32", kFloat32, 1e-5}, Type{"Float64", kFloat64, 1e-12},
                           Type{"Float16", kFloat16, 0x1p-10}, Type{"BFloat16", kBFloat16, 0x1p-7}})
    for (const Place& place :
         {Place{"Cpu", false, Layout::dense}, Place{"CpuGaps", false, Layout::gaps},
          Place{"CpuTransposed", false, Layout::transposed}, Place{"Device", true, Layout::dense},
          Place{"DeviceGaps", true, Layout::gaps}, Place{"DeviceTransposed", true, Layout::transposed}})
      settings.push_back(
          {std::string(type.name) + place.name, type.dtype, place.on_device, place.layout, type.tolerance});
  return settings;
}

INSTANTIATE_TEST_SUITE_P(, Reference, ::testing::ValuesIn(all_settings()),
                         [](const auto& setting) { return setting.param.name; });

// In a folder other than the repository's own, missing ops are listed and skipped.
TEST(ReferenceTable, HasEveryOp) {
  const Table rows = all_rows();
  std::set<std::string> missing;
  std::size_t cases = 0;
  for (const Json& json : read_cases().list)
    if (!rows.contains(json.at("op"))) {
      missing.insert(json.at("op"));
      ++cases;
    }
  const char* const other_folder = std::getenv("LOCKSTEP_REFERENCE");
  if (!other_folder || !*other_folder) {
    ASSERT_EQ(missing, std::set<std::string>());
  }
  if (missing.empty()) return;
  std::string names;
  for (const std::string& name : missing) names += ' ' + name;
  GTEST_SKIP() << missing.size() << " ops (" << cases << " cases) are missing:" << names;
}

}  // namespace
}  // namespace lockstep::reference
