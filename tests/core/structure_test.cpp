// The parts of values, and how paths spell them.
#include <lockstep/core/structure.h>

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

struct Point {
  int x = 1, y = 2;
  auto members() { return lockstep::members("x", x, "y", y); }
};

// Lists "expression=value" for each int in a value, and "expression:extent" for each part with an extent.
template <class T>
void list_parts(T& value, const MemberPath& at, std::vector<std::string>& found) {
  if constexpr (std::same_as<std::remove_const_t<T>, int>) {
    found.push_back(at.expression() + "=" + std::to_string(value));
  } else {
    if constexpr (kHasExtent<T>) found.push_back(at.expression() + ":" + std::to_string(extent_of(value)));
    for_each_part(value, at, [&](auto& part, const MemberPath& path) { list_parts(part, path, found); });
  }
}

template <class T>
std::vector<std::string> parts_of(T value) {
  std::vector<std::string> found;
  list_parts(value, MemberPath("v"), found);
  return found;
}

using Texts = std::vector<std::string>;

TEST(Structure, OfStructsTuplesAndPairs) {
  EXPECT_EQ(parts_of(Point()), (Texts{"v.x=1", "v.y=2"}));
  EXPECT_EQ(parts_of(std::tuple(3, Point())), (Texts{"v[0]=3", "v[1].x=1", "v[1].y=2"}));
  EXPECT_EQ(parts_of(std::pair(3, 4)), (Texts{"v[0]=3", "v[1]=4"}));
  EXPECT_EQ(parts_of(std::tuple<>()), Texts());
}

TEST(Structure, OfLists) {
  EXPECT_EQ(parts_of(std::vector{5, 6}), (Texts{"v:2", "v[0]=5", "v[1]=6"}));
  EXPECT_EQ(parts_of(std::deque{5}), (Texts{"v:1", "v[0]=5"}));
  EXPECT_EQ(parts_of(std::list{5}), (Texts{"v:1", "v[0]=5"}));
  EXPECT_EQ(parts_of(std::array{5, 6}), (Texts{"v[0]=5", "v[1]=6"}));
  int numbers[] = {5, 6};
  Texts found;
  list_parts(numbers, MemberPath("v"), found);
  EXPECT_EQ(found, (Texts{"v[0]=5", "v[1]=6"}));
}

TEST(Structure, OfWhatMayBeThere) {
  EXPECT_EQ(parts_of(std::optional(5)), (Texts{"v:1", "v=5"}));
  EXPECT_EQ(parts_of(std::optional<int>()), Texts{"v:0"});
  EXPECT_EQ((parts_of(std::variant<Point, int>(5))), (Texts{"v:1", "v=5"}));
  EXPECT_EQ((parts_of(std::variant<Point, int>())), (Texts{"v:0", "v.x=1", "v.y=2"}));
}

TEST(Structure, OfMapsInTheOrderOfTheirKeys) {
  EXPECT_EQ((parts_of(std::map<std::string, int>{{"b", 1}, {"a", 2}})), (Texts{"v:2", "v[\"a\"]=2", "v[\"b\"]=1"}));
  EXPECT_EQ((parts_of(std::map<int, int, std::greater<>>{{3, 1}, {7, 2}})), (Texts{"v:2", "v[7]=2", "v[3]=1"}));
  EXPECT_EQ((parts_of(std::map<MemberPath::Step, int>{{MemberPath::Step::index, 2}})), (Texts{"v:1", "v[...]=2"}));
  std::unordered_map<int, int> unordered;
  Texts expected = {"v:50"};
  for (int i = 50; i-- > 0;) unordered[i] = i;
  for (int i = 0; i < 50; ++i) expected.push_back("v[" + std::to_string(i) + "]=" + std::to_string(i));
  EXPECT_EQ(parts_of(unordered), expected);
}

TEST(Structure, OfConstValues) {
  const std::map<std::string, std::vector<int>> value = {{"a", {1}}};
  Texts found;
  list_parts(value, MemberPath("v"), found);
  EXPECT_EQ(found, (Texts{"v:1", "v[\"a\"]:1", "v[\"a\"][0]=1"}));
}

static_assert(kStructure<std::string> == Structure::piece && kStructure<std::set<int>> == Structure::piece);

TEST(MemberPath, IsSpelledForStateDictsAndForCode) {
  const MemberPath whole, named("output"), member(whole, "body"), index(member, 2),
      key(index, MemberPath::Step::text_key, "left");
  EXPECT_EQ(whole.str(), "");
  EXPECT_EQ(MemberPath(key, "weight").str(), "body.2.left.weight");
  const MemberPath element(named, 1), text(element, MemberPath::Step::text_key, "mask"),
      number(text, MemberPath::Step::number_key, "-3");
  EXPECT_EQ(MemberPath(number, "values").expression(), "output[1][\"mask\"][-3].values");
  EXPECT_EQ(MemberPath(named, MemberPath::Step::other_key, "...").expression(), "output[...]");
}

}  // namespace
}  // namespace lockstep
