// Options that DataLoader rejects, and the context it adds to errors of datasets, samplers and collation.
#include <lockstep/data/loader.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include <lockstep/data/tensor_dataset.h>
#include <lockstep/tensor/creation.h>

namespace lockstep::data {
namespace {

// The i-th sample is i.
struct Numbers {
  std::int64_t length;
  std::int64_t size() const { return length; }
  std::int64_t get(std::int64_t index) const { return index; }
};

TEST(DataLoaderRefuses, OptionsOutOfRange) {
  EXPECT_THROW(DataLoader(Numbers{5}, {.batch_size = 0}), InvalidArgument);
  EXPECT_THROW(DataLoader(Numbers{5}, {.num_workers = -1}), InvalidArgument);
  EXPECT_THROW(DataLoader(Numbers{5}, {.num_workers = 1 << 20}), InvalidArgument);
  EXPECT_THROW(DataLoader(Numbers{5}, {.prefetch_factor = 0}), InvalidArgument);
  EXPECT_THROW(DataLoader(Numbers{-1}), InvalidArgument);
  EXPECT_THROW(DataLoader(Numbers{5}, SequentialSampler(5), {.shuffle = true}), InvalidArgument);
}

TEST(DataLoaderRefuses, IndicesOutsideOfTheDatasetWhenTheEpochBegins) {
  DataLoader loader(Numbers{5}, SequentialSampler(6));
  try {
    loader.begin();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()), "[DataLoader] expected indices in [0, 5) from the sampler, got 5");
  }
}

struct ShortSampler {
  std::int64_t size() const { return 3; }
  std::vector<std::int64_t> indices(std::int64_t) const { return {0, 1}; }
};

TEST(DataLoaderRefuses, ASamplerThatGivesAnotherNumberThanItsSize) {
  DataLoader loader(Numbers{5}, ShortSampler());
  EXPECT_THROW(loader.begin(), InvalidArgument);
}

struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws an Exception in sample 7.
template <class Exception>
struct Broken {
  std::int64_t size() const { return 10; }
  std::int64_t get(std::int64_t index) const {
    if (index == 7) throw Exception("broken");
    return index;
  }
};

template <class Exception>
class DataLoaderErrors : public ::testing::Test {};
using Exceptions = ::testing::Types<Error, InvalidArgument, ShapeError, std::runtime_error, std::range_error,
                                    std::overflow_error, std::underflow_error, std::logic_error, std::invalid_argument,
                                    std::domain_error, std::length_error, std::out_of_range>;
TYPED_TEST_SUITE(DataLoaderErrors, Exceptions);

TYPED_TEST(DataLoaderErrors, KeepTheirTypeAndNameTheSample) {
  DataLoader loader(Broken<TypeParam>(), {.batch_size = 4});
  auto it = loader.begin();
  try {
    ++it;
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(typeid(error), typeid(TypeParam));
    EXPECT_EQ(std::string(error.what()), "broken (in sample 7)");
  }
  EXPECT_TRUE(it == loader.end());
  ++it;
  EXPECT_TRUE(it == loader.end());
}

TEST(DataLoaderError, OfAnyOtherTypeIsNotChanged) {
  DataLoader loader(Broken<OwnError>(), {.batch_size = 10});
  try {
    loader.begin();
    FAIL();
  } catch (const OwnError& error) {
    EXPECT_EQ(std::string(error.what()), "broken");
  }
}

TEST(DataLoaderError, OfTheCollationNamesTheBatch) {
  DataLoader loader(Numbers{10}, {.batch_size = 5}, [](const std::vector<std::int64_t>& samples) {
    if (samples[0] == 5) throw std::runtime_error("broken");
    return samples.size();
  });
  auto it = loader.begin();
  try {
    ++it;
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "broken (in batch 1)");
  }
}

struct Ragged {
  std::int64_t size() const { return 8; }
  Tensor get(std::int64_t index) const { return zeros({index == 5 ? 3 : 2}); }
};

TEST(DataLoaderError, OfUnequalShapesNamesTheSamples) {
  DataLoader loader(Ragged(), {.batch_size = 4});
  auto it = loader.begin();
  try {
    ++it;
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(std::string(error.what()),
              "[collate] expected samples of one shape, got [2] in sample 4 and [3] in sample 5 (in batch 1)");
  }
}

TEST(DataLoaderError, LeavesTheLoaderUsable) {
  DataLoader loader(Broken<ShapeError>(), {.batch_size = 5});
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto it = loader.begin();
    EXPECT_EQ(it->to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
    EXPECT_THROW(++it, ShapeError);
  }
}

}  // namespace
}  // namespace lockstep::data
