// A checkpoint holds everything that training needs: a resumed run continues bit for bit.
#include <lockstep/train/checkpoint.h>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cmath>
#include <limits>

#include <lockstep/parallel/data_parallel.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/train/checkpoint_folder.h>

#include "io/memory_source.h"
#include "support/must_end.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"
#include "support/thrown.h"
#include "train/noisy_job.h"

namespace lockstep {
namespace {

using testing::contents;
using testing::NoisyJob;
using testing::same;
using testing::TemporaryFolder;

using Names = std::set<std::string>;
using Steps = std::vector<std::int64_t>;

TEST(Checkpoint, ResumedAtAnyStepContinuesBitForBit) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name, std::int64_t step) { return folder / (name + std::to_string(step)); };
  NoisyJob whole(1);
  whole.run(25, [&](NoisyJob& job) { job.checkpoint().save(file("whole", job.step())); });
  for (std::int64_t from = 1; from < 25; ++from) {
    NoisyJob rest(99);
    rest.resume(Checkpoint::load(file("whole", from)));
    rest.run(25);
    rest.checkpoint().save(file("resumed", from));
    EXPECT_EQ(contents(file("resumed", from)), contents(file("whole", 25))) << from;
  }
}

TEST(Checkpoint, KeepsEverySectionExactly) {
  const TemporaryFolder folder;
  StateDict model;
  model.add("weight", rand({3, 4}));
  model.add("a.b.c", tensor({1, 2}));
  const data::LoaderState loader{.seed = ~0ull, .epoch = 5, .batch = 1ll << 62, .batch_size = 30};
  const GeneratorState generator{.seed = 1ull << 63, .stream = 3, .offset = ~0ull - 1};
  Checkpoint checkpoint;
  checkpoint.put("model", model);
  checkpoint.put("model2", StateDict());
  checkpoint.put("loader", loader);
  checkpoint.put("random", generator);
  checkpoint.put("step", std::numeric_limits<std::int64_t>::min());
  checkpoint.put("epoch", 7);
  checkpoint.put("best", 0.1);
  checkpoint.put("worst", -INFINITY);
  checkpoint.notes() = {{"größe", "重み"}, {"", ""}};
  checkpoint.save(folder / "a");

  const Checkpoint loaded = Checkpoint::load(folder / "a");
  EXPECT_TRUE(same(loaded.tensors("model"), model));
  EXPECT_TRUE(loaded.tensors("model2").empty());
  EXPECT_EQ(loaded.loader("loader"), loader);
  EXPECT_EQ(loaded.generator("random"), generator);
  EXPECT_EQ(loaded.integer("step"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(loaded.integer("epoch"), 7);
  EXPECT_EQ(loaded.number("best"), 0.1);
  EXPECT_EQ(loaded.number("worst"), -INFINITY);
  EXPECT_EQ(loaded.notes(), checkpoint.notes());
  EXPECT_TRUE(loaded.contains("best"));
  EXPECT_FALSE(loaded.contains("model3"));
  loaded.save(folder / "b");
  EXPECT_EQ(contents(folder / "b"), contents(folder / "a"));
}

TEST(Checkpoint, IsASafetensorsFileWhoseModelOtherProgramsFind) {
  const TemporaryFolder folder;
  NoisyJob(1).checkpoint().save(folder / "a");
  const StateDict tensors = load(folder / "a");
  EXPECT_EQ(tensors.at("model.0.weight").sizes(), (Shape{8, 4}));
  EXPECT_EQ(load_metadata(folder / "a").at("lockstep.checkpoint"), "1");
}

TEST(Checkpoint, SectionsThatDoNotFitAreRefused) {
  Checkpoint checkpoint;
  checkpoint.put("step", 3);
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.put("step", 0.5); }),
            R"([checkpoint] expected each section once, got "step" again)");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.put("seed", ~0ull); }),
            "[checkpoint] expected a number below 2^63, got 18446744073709551615");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.put("a.b", 1); }),
            R"([checkpoint] expected a section's name without a dot, got "a.b")");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.put("", 1); }),
            R"([checkpoint] expected a section's name without a dot, got "")");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.number("step"); }),
            R"([checkpoint] expected number in section "step", got integer)");
  EXPECT_EQ(testing::thrown<InvalidArgument>([&] { checkpoint.tensors("model"); }),
            "[checkpoint] expected an existing section (step), got model");
  EXPECT_EQ(testing::thrown<InvalidArgument>([] { Checkpoint().integer("model"); }),
            "[checkpoint] expected an existing section (none), got model");
  const TemporaryFolder folder;
  checkpoint.notes()["lockstep.x"] = "";
  EXPECT_THROW(checkpoint.save(folder / "a"), InvalidArgument);
}

TEST(Checkpoint, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  save({}, folder / "other");
  EXPECT_THROW(Checkpoint::load(folder / "other"), FormatError);
  save({}, folder / "future", {{"lockstep.checkpoint", "2"}});
  EXPECT_THROW(Checkpoint::load(folder / "future"), FormatError);
  save({}, folder / "false", {{"lockstep.checkpoint", "1"}, {"lockstep.section.random", "generator"}});
  EXPECT_THROW(Checkpoint::load(folder / "false").generator("random"), InvalidArgument);
  EXPECT_THROW(Checkpoint::load(folder / "missing"), IoError);
}

TEST(LoadModel, TakesKeysWithAndWithoutTheWrapper) {
  const TestDevices devices(2);
  const auto make = [] { return nn::Sequential(nn::Linear(3, 4), nn::Linear(4, 2)); };
  nn::Sequential plain = make();
  DataParallel parallel(make());
  ASSERT_FALSE(same(plain.state_dict(), parallel.module().state_dict()));

  nn::Sequential from_parallel = make();
  load_model(from_parallel, parallel.state_dict());
  EXPECT_TRUE(same(from_parallel.state_dict(), parallel.module().state_dict()));

  load_model(parallel, plain.state_dict());
  EXPECT_TRUE(same(parallel.module().state_dict(), plain.state_dict()));
  load_model(parallel, from_parallel.state_dict());
  EXPECT_TRUE(same(parallel.module().state_dict(), from_parallel.state_dict()));

  DataParallel other(make());
  load_model(other, parallel.state_dict());
  EXPECT_TRUE(same(other.state_dict(), parallel.state_dict()));
}

struct Wrapper : nn::Module<Wrapper> {
  nn::Linear module{3, 2};
  auto members() { return nn::members("module", module); }
};

TEST(LoadModel, IsNotMisledByAMemberOfThatName) {
  const TestDevices devices(2);
  Wrapper plain;
  DataParallel parallel(Wrapper{});
  load_model(plain, parallel.state_dict());
  EXPECT_TRUE(same(plain.state_dict(), parallel.module().state_dict()));
  Wrapper other;
  load_model(parallel, other.state_dict());
  EXPECT_TRUE(same(parallel.module().state_dict(), other.state_dict()));
}

struct InAndOut : nn::Module<InAndOut> {
  nn::Linear weights{3, 2};
  struct Inner : nn::Module<Inner> {
    nn::Linear weights{3, 2};
    auto members() { return nn::members("weights", weights); }
  } module;
  auto members() { return nn::members("weights", weights, "module", module); }
};

TEST(LoadModel, TakesAModelsOwnKeysAsTheyAre) {
  InAndOut a, b;
  load_model(a, b.state_dict());
  EXPECT_TRUE(same(a.state_dict(), b.state_dict()));
}

TEST(LoadModel, NamesTheKeysThatDoNotFit) {
  nn::Sequential net(nn::Linear(3, 2));
  StateDict state;
  state.add("module.0.weight", zeros({2, 3}));
  state.add("module.0.scale", zeros({2}));
  const std::string message = testing::thrown<InvalidArgument>([&] { load_model(net, state); });
  EXPECT_NE(message.find("missing: 0.bias"), std::string::npos) << message;
  EXPECT_NE(message.find("unexpected: 0.scale"), std::string::npos) << message;
}

Checkpoint of_step(std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.put("step", step);
  return checkpoint;
}

TEST(CheckpointFolder, KeepsTheNewest) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "run", {.every = 10, .keep = 2});
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  for (std::int64_t step = 1; step <= 45; ++step)
    if (checkpoints.is_due(step)) checkpoints.save(step, of_step(step));
  EXPECT_EQ(checkpoints.steps(), (Steps{30, 40}));
  EXPECT_EQ(checkpoints.latest(), 40);
  EXPECT_EQ(checkpoints.load(30).integer("step"), 30);
  EXPECT_EQ(latest_checkpoint(folder / "run"), folder / "run" / "step-000000000040.safetensors");
}

TEST(CheckpointFolder, KeepsAllWhereAskedTo) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), {.keep = 0});
  for (std::int64_t step = 0; step < 12; ++step) checkpoints.save(step, of_step(step));
  EXPECT_EQ(checkpoints.steps().size(), 12u);
  checkpoints.save(10'000'000'000'000, of_step(1));
  EXPECT_EQ(checkpoints.latest(), 10'000'000'000'000);
}

TEST(CheckpointFolder, KeepsWhatItHasJustSavedWhereARunWentFurtherBefore) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), {.keep = 2});
  for (const std::int64_t step : {10, 20, 30}) checkpoints.save(step, of_step(step));
  checkpoints.save(5, of_step(5));
  EXPECT_EQ(checkpoints.steps(), (Steps{5, 20, 30}));
}

TEST(CheckpointFolder, LeavesOtherFilesAloneAndIsNotMisledByThem) {
  const TemporaryFolder folder;
  for (const char* name : {"notes.txt", "step-7.safetensors", "step-000000000099.safetensors.bak",
                           "step--00000000001.safetensors", "step-00000000009x.safetensors"})
    testing::write_file(folder / name, "x");
  testing::write_file(folder / ".step-000000000050.safetensors.lockstep-tmp", "half of a");
  const CheckpointFolder checkpoints(folder.path(), {.keep = 1});
  EXPECT_EQ(checkpoints.latest(), std::nullopt);
  checkpoints.save(1, of_step(1));
  checkpoints.save(2, of_step(2));
  EXPECT_EQ(checkpoints.steps(), (Steps{2}));
  EXPECT_EQ(folder.names().size(), 6u);
  EXPECT_FALSE(folder.names().contains(".step-000000000050.safetensors.lockstep-tmp"));
}

TEST(CheckpointFolder, NeverFollowsASymbolicLinkAtACheckpointsName) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder / "run");
  of_step(3).save(folder / "target");
  const std::string target = contents(folder / "target");
  std::filesystem::create_symlink(folder / "target", checkpoints.path(3));
  EXPECT_NE(testing::thrown<InvalidArgument>([&] { checkpoints.save(3, of_step(4)); }).find("got a symbolic link"),
            std::string::npos);
  EXPECT_NE(testing::thrown<InvalidArgument>([&] { checkpoints.load(3); }).find("got a symbolic link"),
            std::string::npos);
  EXPECT_EQ(contents(folder / "target"), target);
  EXPECT_TRUE(std::filesystem::is_symlink(checkpoints.path(3)));
}

TEST(CheckpointFolder, NeverWaitsForAPipe) {
  const TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), {.keep = 1});
  ASSERT_EQ(::mkfifo((folder / ".step-000000000001.safetensors.lockstep-tmp").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(checkpoints.path(2).c_str(), 0600), 0);
  testing::must_end({[&] {
    checkpoints.save(1, of_step(1));
    EXPECT_THROW(checkpoints.save(2, of_step(2)), InvalidArgument);
    checkpoints.save(3, of_step(3));
  }});
  EXPECT_EQ(checkpoints.load(3).integer("step"), 3);
  EXPECT_EQ(checkpoints.steps(), (Steps{2, 3})) << "the pipe is nobody's checkpoint";
}

TEST(CheckpointFolder, NeitherRemovesNorCountsDamagedOnesOfAnotherWriter) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3}) CheckpointFolder(folder.path()).save(step, of_step(step));
  const auto newest = CheckpointFolder(folder.path()).path(3);
  std::string bytes = contents(newest);
  bytes.back() ^= 1;
  testing::write_file(newest, bytes);
  const CheckpointFolder checkpoints(folder.path(), {.keep = 2});
  checkpoints.save(4, of_step(4));
  EXPECT_EQ(checkpoints.steps(), (Steps{2, 3, 4}));
  checkpoints.save(5, of_step(5));
  EXPECT_EQ(checkpoints.steps(), (Steps{3, 4, 5}));
  EXPECT_EQ(contents(newest), bytes);
  checkpoints.save(3, of_step(3));
  EXPECT_EQ(checkpoints.load(3).integer("step"), 3);
  EXPECT_EQ(contents(newest.string() + ".damaged"), bytes);
}

TEST(CheckpointFolder, RefusesAPathWithAByteZero) {
  const std::string name("/tmp/a\0b", 8);
  EXPECT_THROW(CheckpointFolder{name}, InvalidArgument);
  EXPECT_THROW(latest_checkpoint(name), InvalidArgument);
  EXPECT_THROW(Checkpoint().save(name), InvalidArgument);
  EXPECT_THROW(Checkpoint::load(name), InvalidArgument);
}

TEST(CheckpointFolder, RefusesOptionsOutOfRange) {
  const TemporaryFolder folder;
  EXPECT_THROW(CheckpointFolder(folder.path(), {.every = 0}), InvalidArgument);
  EXPECT_THROW(CheckpointFolder(folder.path(), {.keep = -1}), InvalidArgument);
  testing::write_file(folder / "file", "");
  EXPECT_THROW(CheckpointFolder(folder / "file"), IoError);
  EXPECT_EQ(latest_checkpoint(folder / "missing"), std::nullopt);
}

}  // namespace
}  // namespace lockstep
