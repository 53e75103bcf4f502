#include <lockstep/data/collate.h>

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>

#include "support/test_devices.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kIndices[] = {17, 4, 9};

template <class T>
Collated<T> collate(std::vector<T> samples) {
  const auto count = samples.size();
  return DefaultCollate()(std::move(samples), std::span(kIndices, count));
}

/// Returns the message of the exception that collating throws, which must be an Expected.
template <class Expected, class T>
std::string message_of(const std::vector<T>& samples) {
  try {
    collate(samples);
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing thrown";
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Collate, StacksTensors) {
  const Tensor batch = collate<Tensor>({tensor({1, 2}), tensor({3, 4}), tensor({5, 6})});
  EXPECT_EQ(batch.sizes(), Shape({3, 2}));
  EXPECT_EQ(batch.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Collate, MakesAVectorOfScalarTensors) {
  EXPECT_EQ(collate<Tensor>({tensor(1.5), tensor(2.5)}).sizes(), Shape({2}));
}

TEST(Collate, MakesATensorOfNumbers) {
  const Tensor integers = collate<int>({1, 2, 3});
  EXPECT_EQ(integers.sizes(), Shape({3}));
  EXPECT_EQ(integers.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(collate<double>({0.5, 1.5}).to_vector<float>(), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(collate<std::uint8_t>({7, 255}).dtype(), kUInt8);
  const Tensor flags = collate<bool>({true, false, true});
  EXPECT_EQ(flags.dtype(), kBool);
  EXPECT_EQ(flags.to(kInt64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0, 1}));
}

TEST(Collate, CollatesTheElementsOfTuplesAndPairs) {
  using Sample = std::tuple<Tensor, int, std::string>;
  const auto [rows, labels, names] = collate<Sample>({{tensor({1, 2}), 7, "a"}, {tensor({3, 4}), 8, "b"}});
  EXPECT_EQ(rows.sizes(), Shape({2, 2}));
  EXPECT_EQ(labels.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));

  const std::pair<Tensor, Tensor> pair = collate<std::pair<int, Tensor>>({{1, tensor(2)}, {3, tensor(4)}});
  EXPECT_EQ(pair.first.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(pair.second.to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4}));
}

TEST(Collate, CollatesTheElementsOfVectorsAndArrays) {
  const std::vector<Tensor> columns = collate<std::vector<int>>({{1, 2}, {3, 4}, {5, 6}});
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[1].to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4, 6}));

  const std::vector<Tensor> flags = collate<std::vector<bool>>({{true, false}, {true, true}});
  EXPECT_EQ(flags.at(1).to(kInt64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));

  const std::array<Tensor, 2> pair = collate<std::array<Tensor, 2>>({{tensor(1), tensor(2)}, {tensor(3), tensor(4)}});
  EXPECT_EQ(pair[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3}));
}

TEST(Collate, CollatesTheValuesOfMaps) {
  using Sample = std::map<std::string, Tensor>;
  const Sample batch = collate<Sample>({{{"x", tensor({1, 2})}, {"y", tensor(0)}},  //
                                        {{"x", tensor({3, 4})}, {"y", tensor(1)}}});
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.at("x").sizes(), Shape({2, 2}));
  EXPECT_EQ(batch.at("y").to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
}

TEST(Collate, CollatesTheElementsOfDequesAndLists) {
  const std::deque<Tensor> deque = collate<std::deque<int>>({{1, 2}, {3, 4}});
  EXPECT_EQ(deque.at(1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4}));
  const std::list<Tensor> list = collate<std::list<Tensor>>({{tensor(1), tensor(2)}, {tensor(3), tensor(4)}});
  EXPECT_EQ(list.back().to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 4}));
}

TEST(Collate, CollatesTheValuesOfMapsWithAnyKeysInAnyOrder) {
  const std::map<int, Tensor, std::greater<>> numbered =
      collate<std::map<int, float, std::greater<>>>({{{1, 2.f}}, {{1, 3.f}}});
  EXPECT_EQ(numbered.at(1).to_vector<float>(), (std::vector<float>{2, 3}));
  using Sample = std::unordered_map<std::string, int>;
  const std::unordered_map<std::string, Tensor> batch = collate<Sample>({{{"x", 1}, {"y", 2}}, {{"y", 3}, {"x", 4}}});
  EXPECT_EQ(batch.at("y").to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ((message_of<InvalidArgument, std::map<int, int>>({{{1, 2}}, {{3, 2}}})),
            "[collate] expected the same keys in every sample, got \"1\" in sample 17 and not in sample 4");
}

TEST(Collate, CollatesWhatIsSetInAllSamplesOrInNone) {
  using Sample = std::optional<Tensor>;
  EXPECT_EQ(collate<Sample>({tensor({1, 2}), tensor({3, 4})})->sizes(), Shape({2, 2}));
  EXPECT_FALSE(collate<Sample>({{}, {}}).has_value());
  EXPECT_EQ((message_of<InvalidArgument, Sample>({tensor(1), tensor(2), {}})),
            "[collate] expected a value in every sample or in none, got one in sample 17 and none in sample 9");
  EXPECT_EQ((message_of<InvalidArgument, std::tuple<int, Sample>>({{1, {}}, {2, tensor(2)}})),
            "[collate] expected a value in every sample or in none, got one in sample 4 and none in sample 17 "
            "(in element 1)");
}

TEST(Collate, CollatesVariantsOfOneAlternative) {
  using Sample = std::variant<int, Tensor>;
  const std::variant<Tensor, Tensor> numbers = collate<Sample>({1, 2}), rows = collate<Sample>({tensor({1, 2})});
  EXPECT_EQ(std::get<0>(numbers).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(std::get<1>(rows).sizes(), Shape({1, 2}));
  EXPECT_EQ(
      (message_of<InvalidArgument, Sample>({1, tensor(2)})),
      "[collate] expected the same alternative of a variant in every sample, got alternative 0 in sample 17 and 1 in "
      "sample 4");
}

TEST(Collate, KeepsStringsAsTheyAre) {
  EXPECT_EQ(collate<std::string>({"a", "b"}), (std::vector<std::string>{"a", "b"}));
}

struct Image {
  Tensor pixels;
  Tensor label;
  auto members() { return lockstep::members("pixels", pixels, "label", label); }
};

TEST(Collate, MakesAStructOfTensorsFromStructsOfTensors) {
  const Image batch = collate<Image>({{tensor({1, 2}), tensor(0)}, {tensor({3, 4}), tensor(1)}});
  EXPECT_EQ(batch.pixels.sizes(), Shape({2, 2}));
  EXPECT_EQ(batch.label.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
}

struct Scene {
  Image left;
  std::vector<Tensor> boxes;
  std::map<std::string, Tensor> extra;
  auto members() { return lockstep::members("left", left, "boxes", boxes, "extra", extra); }
};

TEST(Collate, CollatesNestedStructs) {
  const Scene one{{tensor({1, 2}), tensor(0)}, {tensor(5), tensor({6})}, {{"z", tensor(8)}}};
  const Scene batch = collate<Scene>({one, one, one});
  EXPECT_EQ(batch.left.pixels.sizes(), Shape({3, 2}));
  EXPECT_EQ(batch.boxes.at(1).sizes(), Shape({3, 1}));
  EXPECT_EQ(batch.extra.at("z").sizes(), Shape({3}));
}

TEST(Collate, CollatesNestedTuples) {
  using Sample = std::tuple<std::pair<Tensor, int>, std::vector<std::tuple<Tensor>>>;
  const Sample one{{tensor({1, 2}), 3}, {{tensor(4)}, {tensor(5)}}};
  const auto [pair, list] = collate<Sample>({one, one});
  EXPECT_EQ(pair.first.sizes(), Shape({2, 2}));
  EXPECT_EQ(pair.second.sizes(), Shape({2}));
  EXPECT_EQ(std::get<0>(list.at(1)).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5, 5}));
}

struct Labelled {  // its label's batch is a Tensor, which does not fit the member's type
  Tensor pixels;
  int label = 0;
  auto members() { return lockstep::members("pixels", pixels, "label", label); }
};
struct Plain {
  int value;
};

TEST(Collate, KeepsAVectorOfAnythingElse) {
  static_assert(std::same_as<Collated<Labelled>, std::vector<Labelled>>);
  const std::vector<Plain> batch = collate<Plain>({{1}, {2}});
  EXPECT_EQ(batch.at(1).value, 2);
}

TEST(Collate, TakesSamplesThatCanOnlyBeMoved) {
  std::vector<std::unique_ptr<int>> samples;
  samples.push_back(std::make_unique<int>(3));
  EXPECT_EQ(*collate(std::move(samples)).at(0), 3);
}

TEST(Collate, NamesTheSamplesWhoseShapesDisagree) {
  const auto message = message_of<ShapeError, Tensor>({tensor({1, 2}), tensor({1, 2}), tensor({1, 2, 3})});
  EXPECT_EQ(message, "[collate] expected samples of one shape, got [2] in sample 17 and [3] in sample 9");
}

TEST(Collate, NamesTheSamplesWhoseDtypesDisagree) {
  const auto message = message_of<DTypeError, Tensor>({tensor({1, 2}), tensor({1., 2.})});
  EXPECT_EQ(message, "[collate] expected samples of one dtype, got int64 in sample 17 and float32 in sample 4");
}

TEST(Collate, NamesTheSamplesWhoseDevicesDisagree) {
  const TestDevices devices(1);
  const auto message = message_of<DeviceMismatch, Tensor>({tensor({1, 2}), tensor({1, 2}, {.device = "cuda:0"})});
  EXPECT_EQ(message, "[collate] expected samples of one device, got cpu in sample 17 and cuda:0 in sample 4");
}

TEST(Collate, NamesTheSamplesOnTwoGpus) {
  const TestDevices devices(2);
  EXPECT_EQ((message_of<DeviceMismatch, Tensor>(
                {tensor({1, 2}, {.device = "cuda:1"}), tensor({1, 2}, {.device = "cuda:0"})})),
            "[collate] expected samples of one device, got cuda:1 in sample 17 and cuda:0 in sample 4");
}

TEST(Collate, NamesTheSampleThatHasNoTensor) {
  EXPECT_MENTIONS((message_of<InvalidArgument, Tensor>({tensor(1), Tensor()})), "none in sample 4");
}

template <class T>
class CollateUnsigned : public ::testing::Test {};
using Unsigned = ::testing::Types<unsigned long, unsigned long long>;
TYPED_TEST_SUITE(CollateUnsigned, Unsigned);

TYPED_TEST(CollateUnsigned, KeepsWhatInt64Holds) {
  constexpr TypeParam kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(collate<TypeParam>({0, kLargest}).template to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, std::int64_t(kLargest)}));
}

TYPED_TEST(CollateUnsigned, NamesTheSampleThatInt64CannotHold) {
  constexpr TypeParam kTooLarge = TypeParam(1) << 63;
  EXPECT_EQ((message_of<InvalidArgument, TypeParam>({1, kTooLarge, 2})),
            "[collate] expected integers up to 9223372036854775807, got 9223372036854775808 in sample 4");
  using Sample = std::tuple<int, TypeParam>;
  EXPECT_EQ((message_of<InvalidArgument, Sample>({{1, 2}, {1, 2}, {1, kTooLarge + 5}})),
            "[collate] expected integers up to 9223372036854775807, got 9223372036854775813 in sample 9 "
            "(in element 1)");
}

TEST(Collate, NamesTheSamplesWhoseLengthsDisagree) {
  EXPECT_MENTIONS((message_of<ShapeError, std::vector<int>>({{1, 2}, {1, 2, 3}})),
                  "got 2 elements in sample 17 and 3 in sample 4");
}

TEST(Collate, NamesTheKeyThatIsMissing) {
  using Sample = std::map<std::string, int>;
  EXPECT_MENTIONS((message_of<InvalidArgument, Sample>({{{"x", 1}, {"y", 2}}, {{"x", 1}}})),
                  "\"y\" in sample 17 and not in sample 4");
  EXPECT_MENTIONS((message_of<InvalidArgument, Sample>({{{"x", 1}}, {{"x", 1}, {"y", 2}}})),
                  "\"y\" in sample 4 and not in sample 17");
}

TEST(Collate, SaysWhereInTheSampleItFailed) {
  using Sample = std::tuple<int, Image>;
  const auto message =
      message_of<ShapeError, Sample>({{1, {tensor({1, 2}), tensor(0)}}, {1, {tensor({1, 2, 3}), tensor(0)}}});
  EXPECT_MENTIONS(message, "in \"pixels\"");
  EXPECT_MENTIONS(message, "in element 1");
}

struct Word {
  std::string text;
};

}  // namespace

template <>
struct Collator<Word> {
  static std::string collate(const std::vector<Word>& samples, SampleIndices) {
    std::string all;
    for (const Word& word : samples) all += word.text;
    return all;
  }
};

namespace {

TEST(Collate, FollowsASpecializedCollatorAlsoInsideOfATuple) {
  using Sample = std::tuple<Word, int>;
  EXPECT_EQ(std::get<0>(collate<Sample>({{{"a"}, 1}, {{"b"}, 2}})), "ab");
}

}  // namespace
}  // namespace lockstep::data
