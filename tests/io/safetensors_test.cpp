// Saved tensors load bit for bit, and so do files of the format's reference implementation.
#include <lockstep/io/safetensors.h>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>

#include <lockstep/nn/layers.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/runtime/memory.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/random.h>

#include "core/text.h"
#include "io/memory_source.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"

namespace lockstep {
namespace {

using testing::bytes_of;
using testing::same;
using testing::TemporaryFolder;
using testing::written;

constexpr DType kAll[] = {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64};

// The numbers 0 to 5; for bool their parity.
Tensor six(DType dtype) {
  const Tensor numbers = dtype == kBool ? tensor({{0, 1, 0}, {1, 0, 1}}) : tensor({{0, 1, 2}, {3, 4, 5}});
  return numbers.to(dtype);
}

StateDict of_all_dtypes() {
  StateDict state;
  for (const DType dtype : kAll) state.add(std::string(name(dtype)), six(dtype));
  return state;
}

TEST(Safetensors, RoundTripOfEveryDType) {
  const TemporaryFolder folder;
  const StateDict state = of_all_dtypes();
  save(state, folder / "a.safetensors");
  EXPECT_TRUE(same(load(folder / "a.safetensors"), state));
}

TEST(Safetensors, RoundTripOfEveryBitPattern) {
  std::vector<double> odd = {-0.0, std::numeric_limits<double>::denorm_min(), INFINITY, -INFINITY, 0.1, 1e308};
  odd.push_back(std::bit_cast<double>(std::uint64_t(0x7ff0'0000'0000'0001)));  // a signalling NaN
  StateDict state;
  state.add("doubles", from_host(odd.data(), odd.size(), kFloat64, {std::int64_t(odd.size())}));
  std::vector<Half> halves;
  for (int bits = 0; bits < 65536; ++bits) halves.push_back(Half::from_bits(std::uint16_t(bits)));
  state.add("halves", from_host(halves.data(), halves.size(), kFloat16, {65536}));
  EXPECT_TRUE(same(testing::read(written(state)), state));
}

TEST(Safetensors, RoundTripOfEmptyAndZeroDimensionalTensors) {
  StateDict state;
  state.add("scalar", tensor(2.5));
  state.add("none", empty({0}));
  state.add("between", empty({2, 0, 3}, {.dtype = kInt64}));
  state.add("eight", ones({1, 1, 1, 2, 1, 1, 1, 1}));
  const StateDict loaded = testing::read(written(state));
  EXPECT_TRUE(same(loaded, state));
  EXPECT_EQ(loaded.at("between").sizes(), (Shape{2, 0, 3}));
  EXPECT_EQ(loaded.at("scalar").dim(), 0);
}

TEST(Safetensors, RoundTripOfOddKeysInTheirOrder) {
  StateDict state;
  for (const std::string key :
       {"z", "gewicht.größe.重み", "🙂", "quote \" backslash \\ / line \n \x01", "", "a", "dtype"})
    state.add(key, tensor({1, 2}));
  state.add(std::string(1 << 20, 'k'), tensor({3}));
  state.add(std::string("zero\0inside", 11), tensor({4}));
  EXPECT_TRUE(same(testing::read(written(state)), state));
}

TEST(Safetensors, RoundTripOfMetadata) {
  const TemporaryFolder folder;
  const FileMetadata metadata = {{"größe", "重み"}, {"", ""}, {"line", "\"\\\n"}, {"x", std::string(100'000, 'y')}};
  save(of_all_dtypes(), folder / "a.safetensors", metadata);
  EXPECT_EQ(load_metadata(folder / "a.safetensors"), metadata);
  save({}, folder / "a.safetensors");
  EXPECT_EQ(load_metadata(folder / "a.safetensors"), FileMetadata());
  EXPECT_EQ(load(folder / "a.safetensors").size(), 0u);
}

TEST(Safetensors, StridedTensorsAreWrittenRowByRow) {
  StateDict state;
  state.add("transposed", six(kFloat32).t());
  state.add("part", six(kInt32).slice(1, 0, 3, 2));
  state.add("expanded", tensor({7, 8}).expand({3, 2}));
  const StateDict loaded = testing::read(written(state));
  EXPECT_EQ(loaded.at("transposed").to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(loaded.at("part").to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2, 3, 5}));
  EXPECT_EQ(loaded.at("expanded").to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 8, 7, 8, 7, 8}));
}

TEST(Safetensors, TensorsOnDevicesAreSavedAndLoadedThere) {
  const TestDevices devices(2);
  const TemporaryFolder folder;
  StateDict state;
  state.add("a", rand({100, 10}, {.device = "cuda:0"}));
  state.add("b", rand({10, 100}, {.device = "cuda:1"}).t());
  save(state, folder / "a.safetensors");
  const StateDict on_host = load(folder / "a.safetensors");
  const StateDict on_device = load(folder / "a.safetensors", {.device = "cuda:1"});
  EXPECT_EQ(on_host.at("a").device(), Device());
  EXPECT_EQ(on_device.at("a").device(), Device("cuda:1"));
  EXPECT_TRUE(same(on_host, state));
  EXPECT_TRUE(same(on_device, state));
}

TEST(Safetensors, AModuleGoesOnFromAFile) {
  const TemporaryFolder folder;
  nn::Sequential net(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2));
  save(net.state_dict(), folder / "net.safetensors");
  nn::Sequential other(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2));
  other.load_state_dict(load(folder / "net.safetensors"));
  EXPECT_TRUE(same(other.state_dict(), net.state_dict()));
}

TEST(Safetensors, DataAreAlignedToTheirElements) {
  StateDict state;
  state.add("c", tensor({1, 2, 3}).to(kUInt8));
  state.add("b", tensor({1., 2., 3.}).to(kFloat16));
  state.add("a", tensor({1., 2., 3.}, {.dtype = kFloat64}));
  const std::string bytes = written(state);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  const std::string_view header = std::string_view(bytes).substr(8, length);
  EXPECT_EQ(header.substr(header.find("},") + 1, header.find_last_not_of(' ') - header.find("},")),
            R"(,"c":{"dtype":"U8","shape":[3],"data_offsets":[30,33]},)"
            R"("b":{"dtype":"F16","shape":[3],"data_offsets":[24,30]},)"
            R"("a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}})");
  EXPECT_EQ(bytes.size(), 8 + length + 33);
}

TEST(Safetensors, WhatAFileCannotHoldIsRefusedBeforeItIsTouched) {
  const TemporaryFolder folder;
  testing::write_file(folder / "a.safetensors", "old");
  StateDict undefined, reserved, broken;
  undefined.add("x", Tensor());
  reserved.add("__metadata__", tensor(1));
  broken.add("caf\xe9", tensor(1));
  const auto try_to_save = [&](const StateDict& state, const FileMetadata& metadata = {}) {
    return testing::thrown<InvalidArgument>([&] { save(state, folder / "a.safetensors", metadata); });
  };
  EXPECT_EQ(try_to_save(undefined), R"([save] expected a tensor for "x", got an undefined one)");
  EXPECT_EQ(try_to_save(reserved), "[save] expected no tensor with the key __metadata__, which is reserved, got one");
  EXPECT_EQ(try_to_save(broken), R"([save] expected UTF-8, got "caf\ufffd")");
  EXPECT_EQ(try_to_save({}, {{"x", "\xff"}}), R"([save] expected UTF-8, got "\ufffd")");
  EXPECT_EQ(testing::contents(folder / "a.safetensors"), "old");
  EXPECT_EQ(folder.names(), std::set<std::string>{"a.safetensors"});
}

TEST(Safetensors, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(load(folder / "missing"), IoError);
  EXPECT_THROW(load(folder.path()), InvalidArgument);
  EXPECT_THROW(load("/dev/zero"), InvalidArgument);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(load(folder / "pipe"), InvalidArgument);
  const std::string name("missing\0", 8);
  EXPECT_THROW(load(folder / name), InvalidArgument);
  EXPECT_THROW(load_metadata(folder / name), InvalidArgument);
  EXPECT_THROW(save({}, folder / name), InvalidArgument);
  try {
    load(folder / "missing");
  } catch (const IoError& error) {
    EXPECT_EQ(error.code, ENOENT);
    EXPECT_EQ(error.file, (folder / "missing").string());
  }
}

TEST(SafetensorsInterop, ReadsAllDTypesOfOthers) {
  const StateDict theirs = load(LOCKSTEP_IO_DATA_FOLDER "/dtypes.safetensors");
  EXPECT_EQ(theirs.size(), std::size(kAll));
  for (const DType dtype : kAll) {
    const Tensor& got = theirs.at(name(dtype));
    EXPECT_EQ(got.dtype(), dtype);
    EXPECT_EQ(got.sizes(), (Shape{2, 3}));
    EXPECT_EQ(bytes_of(got), bytes_of(six(dtype))) << dtype;
  }
}

TEST(SafetensorsInterop, ReadsShapesKeysAndMetadataOfOthers) {
  const std::string path = LOCKSTEP_IO_DATA_FOLDER "/shapes.safetensors";
  const StateDict theirs = load(path);
  EXPECT_EQ(theirs.size(), 7u);
  EXPECT_EQ(theirs.at("scalar").item<float>(), 2.5f);
  EXPECT_EQ(theirs.at("scalar").dim(), 0);
  EXPECT_EQ(theirs.at("empty").sizes(), (Shape{0}));
  EXPECT_EQ(theirs.at("empty.3d").sizes(), (Shape{2, 0, 3}));
  EXPECT_EQ(theirs.at("gewicht.größe.重み").to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(theirs.at("quote \" backslash \\ newline \n").item<int>(), 3);
  EXPECT_EQ(theirs.at("").item<double>(), 4.0);
  EXPECT_EQ(theirs.at("eight.dimensions").sizes(), (Shape{1, 1, 1, 2, 1, 1, 1, 1}));
  EXPECT_EQ(load_metadata(path), (FileMetadata{{"made by", "safetensors"}, {"größe", "重み"}, {"empty", ""}}));
}

TEST(SafetensorsInterop, ReadsAFileOfNothing) {
  EXPECT_TRUE(load(LOCKSTEP_IO_DATA_FOLDER "/nothing.safetensors").empty());
}

TEST(SafetensorsInterop, NamesADTypeThatLockstepDoesNotHold) {
  try {
    load(LOCKSTEP_IO_DATA_FOLDER "/int16.safetensors");
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find(R"(got "I16")"), std::string::npos) << error.what();
  }
}

// The other direction: data/check_ours.py reads this file.
TEST(SafetensorsInterop, WritesFilesForOthers) {
  const TemporaryFolder own;
  const char* asked = std::getenv("LOCKSTEP_INTEROP_FOLDER");
  const std::filesystem::path path = (asked ? std::filesystem::path(asked) : own.path()) / "ours.safetensors";
  StateDict state = of_all_dtypes();
  state.add("transposed", six(kFloat32).t());
  state.add("scalar", tensor(2.5));
  state.add("empty", empty({2, 0, 3}));
  state.add("gewicht.größe.重み \" \\ \n", tensor({7}).to(kInt32));
  save(state, path, {{"made by", "Lockstep"}, {"größe", "重み"}});
  EXPECT_TRUE(same(load(path), state));
}

// The numbers 0 to 5 of each dtype, and 1 MB.
StateDict several() {
  StateDict state;
  for (const DType dtype : kAll) state.add(text(dtype), six(dtype));
  state.add("large", rand({1 << 18}));
  return state;
}

TEST(DeferredLoad, ReadsTheSameValues) {
  const TemporaryFolder folder;
  const StateDict saved = several();
  save(saved, folder.path() / "a.safetensors");
  const std::size_t before = memory_stats(Device()).in_use;
  const StateDict loaded = load(folder.path() / "a.safetensors", {.deferred = true});
  ASSERT_EQ(loaded.size(), saved.size());
  std::filesystem::remove(folder.path() / "a.safetensors");  // it stays open
  Tensor copy = empty({1 << 18});
  copy.copy_(*loaded.find("large"));
  EXPECT_LT(memory_stats(Device()).in_use - before, 3 << 19) << "the copy alone";
  EXPECT_TRUE(same(loaded, saved));
  EXPECT_EQ(copy.to_vector<float>(), saved.find("large")->to_vector<float>());
}

TEST(DeferredLoad, FindsDamageWhenATensorIsUsed) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.safetensors";
  save(several(), path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('\7');
  EXPECT_THROW(load(path), FormatError);
  const StateDict loaded = load(path, {.deferred = true});
  int damaged = 0;
  for (const auto& [key, value] : loaded) try {
      value.clone();
    } catch (const FormatError&) {
      ++damaged;
      EXPECT_THROW(value.data<std::uint8_t>(), Error);  // again
    }
  EXPECT_EQ(damaged, 1);
  EXPECT_THROW(load(path, {.device = Device::cuda(0), .deferred = true}), InvalidArgument);
}

TEST(LoadFolder, ReadsAllFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(load(folder.path()), InvalidArgument);
  StateDict first, second;
  first.add("a", ones({2}));
  second.add("b", zeros({3}));
  save(first, folder.path() / "model-00001-of-00002.safetensors");
  save(second, folder.path() / "model-00002-of-00002.safetensors");
  std::ofstream(folder.path() / "model.safetensors.index.json") << "{}";
  for (const bool deferred : {false, true}) {
    const StateDict loaded = load(folder.path(), {.deferred = deferred});
    ASSERT_EQ(loaded.size(), 2u);
    EXPECT_EQ(loaded.find("a")->to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_EQ(loaded.find("b")->to_vector<float>(), (std::vector<float>{0, 0, 0}));
  }
  save(second, folder.path() / "model-00003-of-00002.safetensors");
  EXPECT_THROW(load(folder.path()), FormatError);
}

TEST(LoadFolder, RefusesLinksAndPathsWithAZeroByte) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "real");
  StateDict state;
  state.add("a", ones({2}));
  save(state, folder.path() / "real" / "a.safetensors");
  std::filesystem::create_directory(folder.path() / "real" / "b.safetensors");  // a folder, which is not read
  std::filesystem::create_directory_symlink(folder.path() / "real", folder.path() / "link");
  EXPECT_EQ(load(folder.path() / "link").size(), 1u);
  EXPECT_THROW(load(folder.path() / "link", {.links = Links::refuse}), InvalidArgument);
  EXPECT_THROW(load((folder.path() / "real").string() + std::string("\0x", 2)), InvalidArgument);
}

}  // namespace
}  // namespace lockstep
