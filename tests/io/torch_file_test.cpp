// State dicts written by PyTorch 2.15 (tests/io/data/torch) are read exactly; other files are rejected with a reason.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/tensor/creation.h>

#include "io/memory_source.h"
#include "io/torch_file.h"
#include "support/repetitions.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;
using testing::bytes_of;
using testing::contents;
using testing::TemporaryFolder;

std::string torch_fixture(const std::string& name) { return LOCKSTEP_IO_DATA_FOLDER "/torch/" + name; }

std::vector<std::string> keys_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : state) names.push_back(key);
  return names;
}

// Returns the error message without the file's path.
std::string torch_refusal(const std::string& path) {
  try {
    load(path);
  } catch (const FormatError& error) {
    const std::string what = error.what();
    return what.substr(what.rfind('/', what.find(']')) + 1);
  }
  return "";
}

TEST(TorchFile, GivesEveryDType) {
  const StateDict state = load(torch_fixture("dtypes.pt"));
  EXPECT_EQ(state.size(), 8u);
  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor& tensor = state.at(name(dtype));
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.sizes(), (Shape{2, 3}));
    const std::vector<double> expected =
        dtype == kBool ? std::vector<double>{0, 1, 0, 1, 0, 1} : std::vector<double>{0, 1, 2, 3, 4, 5};
    EXPECT_EQ(tensor.to(kFloat64).to_vector<double>(), expected) << name(dtype);
  }
}

TEST(TorchFile, GivesViewsOfOneStorage) {
  const StateDict state = load(torch_fixture("strided.pt"));
  EXPECT_EQ(keys_of(state), (std::vector<std::string>{"transposed", "every_other", "expanded", "scalar", "empty",
                                                      "whole", "parameter"}));
  EXPECT_EQ(state.at("transposed").sizes(), (Shape{3, 2}));
  EXPECT_EQ(state.at("transposed").to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(state.at("every_other").to_vector<float>(), (Floats{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(state.at("expanded").to_vector<float>(), (Floats{3, 3, 3, 3}));
  EXPECT_EQ(state.at("scalar").item<double>(), 2.5);
  EXPECT_EQ(state.at("empty").sizes(), (Shape{2, 0, 3}));
  EXPECT_EQ(state.at("parameter").to_vector<float>(), (Floats{1.5, -2.5}));
  EXPECT_FALSE(state.at("parameter").requires_grad());
  Tensor whole = state.at("whole");
  whole.fill_(7);
  EXPECT_EQ(state.at("every_other").to_vector<float>(), Floats(6, 7)) << "they share memory as they did in PyTorch";
}

TEST(TorchFile, IsLoadedIntoAModule) {
  nn::Linear linear(2, 3);
  StateDict state = load(torch_fixture("model.pt"));
  EXPECT_EQ(keys_of(state), (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                                      "1.running_var", "1.num_batches_tracked"}));
  linear.load_state_dict(state, {.strict = false, .strip_prefix = "0."});
  EXPECT_EQ(linear(ones({1, 2})).to_vector<float>(), (Floats{1.5, 4.5, 10}));
}

TEST(TorchFile, NamesWhatIsNestedAndMakesTensorsOfNumbers) {
  for (const char* name : {"checkpoint.pt", "checkpoint_protocol4.pt"}) {
    const StateDict state = load(torch_fixture(name));
    EXPECT_EQ(state.at("model.0.weight").to_vector<float>(), (Floats{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(state.at("epoch").item<std::int64_t>(), 3);
    EXPECT_EQ(state.at("steps").item<std::int64_t>(), std::int64_t(1) << 40);
    EXPECT_EQ(state.at("below").item<std::int64_t>(), -300);
    EXPECT_EQ(state.at("loss").dtype(), kFloat64);
    EXPECT_EQ(state.at("loss").item<double>(), 0.125);
    EXPECT_EQ(state.at("best").dtype(), kBool);
    EXPECT_EQ(state.at("sizes.1").item<int>(), 3);
    EXPECT_EQ(state.at("history.1").item<double>(), 0.25);
    EXPECT_EQ(state.at("state.0.momentum").to_vector<float>(), (Floats{1, 1}));
    EXPECT_EQ(state.find("scheduler"), nullptr) << "None is left out";
    EXPECT_EQ(state.find("name"), nullptr) << "a text is no tensor";
    EXPECT_EQ(load_metadata(torch_fixture(name)), (FileMetadata{{"name", "größe"}}));
  }
}

TEST(TorchFile, IsLoadedOntoADevice) {
  const TestDevices devices(2);
  const StateDict state = load(torch_fixture("strided.pt"), {.device = Device::cuda(1)});
  for (const auto& [key, tensor] : state) EXPECT_EQ(tensor.device(), Device::cuda(1)) << key;
  EXPECT_EQ(state.at("transposed").to_vector<float>(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(load(torch_fixture("checkpoint.pt"), {.device = Device::cuda(0)}).at("epoch").device(), Device::cuda(0));
}

TEST(TorchFile, IsSavedAsSafetensors) {
  const TemporaryFolder folder;
  for (const char* name : {"dtypes.pt", "strided.pt", "checkpoint.pt"}) {
    const StateDict state = load(torch_fixture(name));
    save(state, folder / "same.safetensors");
    EXPECT_TRUE(testing::same(load(folder / "same.safetensors"), state)) << name;
  }
}

TEST(TorchFile, IsKnownByItsContentWhateverItsName) {
  const TemporaryFolder folder;
  testing::write_file(folder / "model.safetensors", contents(torch_fixture("model.pt")));
  EXPECT_EQ(load(folder / "model.safetensors").size(), 7u);
}

// A Python object does not prevent reading the tensors beside it.
TEST(TorchFile, LeavesOutObjectsAndNamesThem) {
  for (const char* name : {"objects.pt", "objects_protocol5.pt"}) {
    std::map<std::string, std::string> skipped;
    const auto note = [&](const std::string& left, const std::string& what) { skipped.emplace(left, what); };
    const StateDict state = load(torch_fixture(name), {.on_skipped = note});
    EXPECT_EQ(state.at("weight").to_vector<float>(), (Floats{1, 1}));
    EXPECT_EQ(state.at("epoch").item<int>(), 7);
    EXPECT_EQ(state.at("milestones.30").item<int>(), 1) << "a Counter is a dict";
    EXPECT_EQ(state.at("milestones.60").item<int>(), 2);
    EXPECT_EQ(state.at("groups.a.0").item<double>(), 1.5) << "a defaultdict is a dict";
    EXPECT_EQ(state.size(), 5u) << name;
    EXPECT_EQ(skipped.at("args"), "argparse.Namespace");
    EXPECT_EQ(skipped.at("device"), "torch.device");
    EXPECT_EQ(skipped.at("dtype"), "torch.float32");
    EXPECT_EQ(skipped.at("large"), "int");
    EXPECT_EQ(skipped.at("recent"), "collections.deque");
    EXPECT_EQ(skipped.at("model"), "torch.nn.modules.container.Sequential");
    EXPECT_EQ(skipped.at("by_pair.?"), "a value whose key is a tuple");
    for (const char* other : {"best", "seen", "frozen", "raw", "bytearray", "folder"})
      EXPECT_TRUE(skipped.contains(other)) << name << ' ' << other;
    EXPECT_EQ(skipped.size(), 13u);
    EXPECT_TRUE(load_metadata(torch_fixture(name)).empty());
  }
}

TEST(TorchFile, NamesWhatIsLeftOutOnStandardError) {
  ::testing::internal::CaptureStderr();
  load(torch_fixture("objects.pt"));
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("objects.pt: skipped, since no tensor can hold them: \"args\" (argparse.Namespace), "), line.npos)
      << line;
  EXPECT_TRUE(line.ends_with(", and 5 more\n")) << line;
  ::testing::internal::CaptureStderr();
  load(torch_fixture("checkpoint.pt"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(TorchFile, RefusesWhatIsNoStateDict) {
  EXPECT_EQ(torch_refusal(torch_fixture("whole_model.pt")),
            "whole_model.pt] at byte 108: expected a state dict, got \"torch.nn.modules.container.Sequential\": save a "
            "dict of tensors, as state_dict() gives one");
  EXPECT_EQ(torch_refusal(torch_fixture("int16.pt")),
            "int16.pt] at byte 173: expected a tensor of bool, uint8, int32, int64, float16, bfloat16, float32 or "
            "float64, got one in a \"torch.ShortStorage\": convert it before it is saved");
  EXPECT_NE(torch_refusal(torch_fixture("sparse.pt"))
                .find("expected dense tensors of class torch.Tensor or torch.nn.Parameter, got \"x\" by "
                      "\"torch._utils._rebuild_sparse_tensor\""),
            std::string::npos);
  EXPECT_EQ(torch_refusal(torch_fixture("script.pt")),
            "script.pt] at byte 0: expected a file of torch.save, got TorchScript (torch.jit.save): save its "
            "state_dict() with torch.save");
  EXPECT_EQ(torch_refusal(torch_fixture("before_1_6.pt")),
            "before_1_6.pt] at byte 0: expected a zip file, got the form that PyTorch wrote before 1.6: load it in "
            "PyTorch 1.6 or newer and save it again");
  EXPECT_NE(
      torch_refusal(torch_fixture("tensor.pt")).find("expected a state dict, got a tensor: save a dict of tensors"),
      std::string::npos);
}

TEST(TorchFile, NoticesEachFlippedBitOfTheData) {
  const std::string bytes = contents(torch_fixture("model.pt"));
  const StateDict whole = load(torch_fixture("model.pt"));
  const std::string weight = bytes_of(whole.at("0.weight"));
  const std::size_t begin = bytes.find(weight);
  ASSERT_NE(begin, bytes.npos);
  const TemporaryFolder folder;
  for (std::size_t bit = 0; bit < 8 * weight.size(); ++bit) {
    std::string damaged = bytes;
    damaged[begin + bit / 8] = char(damaged[begin + bit / 8] ^ (1 << bit % 8));
    testing::write_file(folder / "damaged.pt", damaged);
    EXPECT_NE(torch_refusal(folder / "damaged.pt").find("of \"model/data/0\", got"), std::string::npos) << bit;
    EXPECT_NO_THROW(load(folder / "damaged.pt", {.verify = false})) << bit;
  }
}

// A flipped bit anywhere either changes nothing that is read, or makes the reader throw.
TEST(TorchFile, NoticesEachFlippedBit) {
  for (const char* name : {"checkpoint.pt", "strided.pt"}) {
    const std::string bytes = contents(torch_fixture(name));
    testing::MemorySource whole(bytes);
    const safetensors::Contents expected = torch_file::read(whole, {});
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += testing::kStride) {
      std::string damaged = bytes;
      damaged[bit / 8] = char(damaged[bit / 8] ^ (1 << bit % 8));
      testing::MemorySource source(damaged);
      try {
        const safetensors::Contents got = torch_file::read(source, {});
        EXPECT_TRUE(testing::same(got.tensors, expected.tensors)) << name << ", bit " << bit;
        EXPECT_EQ(got.metadata, expected.metadata) << name << ", bit " << bit;
      } catch (const FormatError&) {
      }
    }
  }
}

TEST(TorchFile, RefusesEveryBeginningOfAFile) {
  const std::string bytes = contents(torch_fixture("checkpoint.pt"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    testing::MemorySource source(std::string_view(bytes).substr(0, size));
    try {
      if (torch_file::is_torch_file(source))
        torch_file::read(source, {});
      else
        safetensors::read(source, {});
      ADD_FAILURE() << size << " bytes were read";
    } catch (const FormatError& error) {
      EXPECT_LE(error.offset, size);
    }
  }
}

}  // namespace
}  // namespace lockstep
