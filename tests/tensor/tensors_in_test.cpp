// The types whose tensors are all found. Other types do not compile (tests/compile).
#include <lockstep/tensor/tensors_in.h>

#include <gtest/gtest.h>

#include <any>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <span>
#include <valarray>

#include <lockstep/core/dtype.h>
#include <lockstep/tensor/creation.h>

namespace lockstep {
namespace {

template <class... T>
constexpr bool kAllShow = (kHidesNoTensors<T> && ...);
template <class... T>
constexpr bool kNoneShows = !(kHidesNoTensors<T> || ...);

struct Tree {
  Tensor x;
  std::vector<Tree> children;
  auto members() { return lockstep::members("x", x, "children", children); }
};
static_assert(kAllShow<Tensor, Tensor[2], Tree, std::tuple<int, Tree>, std::variant<int, Tensor>>);
static_assert(kHoldsTensors<Tensor[2]> && kHoldsTensors<Tree> && !kHoldsTensors<std::vector<int>>);

// Types that hold no tensors.
enum class Kind { one };
struct Tag {};
struct Plain {
  int a;
  double x[3];
  std::array<Kind, 2> kinds;
  const char* name;
};
class Compared {
 public:
  explicit Compared(int value) : value_(value) {}
  bool operator==(const Compared&) const = default;

 private:
  int value_;
};
static_assert(kAllShow<int, bool, Kind, Tag, std::nullptr_t, std::nullopt_t, int (*)(double), const char*>);
static_assert(kAllShow<std::string, std::string_view, std::filesystem::path, Device, DType, Shape, TensorOptions>);
static_assert(kAllShow<Plain, Compared, std::set<Compared*>, std::vector<Plain>, std::shared_ptr<const Plain>>);
static_assert(kAllShow<std::vector<bool>, std::map<std::string, std::vector<double>>, std::unique_ptr<int>>);

// Types that hold tensors that are not found, with and without an operator==.
struct Hidden {
  Tensor x;
};
struct SaysEqual {
  Tensor x;
  int id;
  bool operator==(const SaysEqual& other) const { return id == other.id; }
};
struct DefaultEqual {
  std::vector<Tensor> x;
  bool operator==(const DefaultEqual&) const = default;
};
struct Nested {
  int a;
  SaysEqual inside;
  bool operator==(const Nested&) const = default;
};
struct FromBase : Hidden {
  int a;
  bool operator==(const FromBase&) const { return true; }
};
struct InAnArray {
  Tensor x[2];
  bool operator==(const InAnArray&) const { return true; }
};
struct BehindAPointer {
  int a;
  std::map<std::string, Hidden*> x;
  bool operator==(const BehindAPointer&) const = default;
};
struct InItself {
  std::vector<InItself> children;
  Tensor x;
};
struct Converts {
  int a;
  operator Tensor() const;
  bool operator==(const Converts&) const = default;
};
static_assert(
    kNoneShows<Hidden, SaysEqual, DefaultEqual, Nested, FromBase, InAnArray, BehindAPointer, InItself, Converts>);
static_assert(kNoneShows<Tensor*, Tensor**, std::shared_ptr<Tensor[]>, std::vector<std::unique_ptr<Tensor>>, Hidden*,
                         std::shared_ptr<const Hidden>, std::weak_ptr<Hidden>, std::shared_ptr<Tree>>);
static_assert(
    kNoneShows<std::reference_wrapper<Tensor>, std::tuple<int, std::reference_wrapper<Tree>>, std::tuple<Tensor&>>);
static_assert(kNoneShows<std::set<Tensor>, std::queue<Tensor>, std::span<Tensor>, std::valarray<Tensor>,
                         std::multimap<int, Tensor>, std::unordered_multimap<int, Tensor>, std::vector<Hidden>>);

// Types that may hold tensors.
struct Incomplete;
class Closed {
 public:
  explicit Closed(int);

 private:
  Tensor x_;
};
struct HoldsAny {
  int a;
  std::any b;
};
struct Refers {
  const Tensor& x;
};
class Texts {
 public:
  explicit Texts(std::string);
  bool operator==(const Texts&) const = default;

 private:
  std::string text_;
};
class DeclaredTexts : public Texts {};
inline const auto kCaptures = [x = Tensor()] { return x; };
inline const auto kRefers = [&x = kCaptures] { return x(); };
}  // namespace
template <>
inline constexpr bool kIsPlain<DeclaredTexts> = true;
namespace {
static_assert(kNoneShows<Closed, Closed*, std::shared_ptr<Closed>, HoldsAny, std::any, std::function<void()>, void*,
                         Incomplete*, Refers, Texts, decltype(kCaptures), decltype(kRefers)>);
static_assert(kAllShow<DeclaredTexts, std::shared_ptr<DeclaredTexts>, std::map<int, DeclaredTexts>>);
static_assert(kAllShow<std::reference_wrapper<Closed>, std::reference_wrapper<std::function<void()>>>);

TEST(TensorsIn, AreVisitedByName) {
  std::vector<std::string> names;
  std::tuple<std::vector<Tree>, Tensor[2], std::optional<Tensor>, int> value;
  std::get<0>(value).push_back({ones({1}), {{ones({2}), {}}}});
  std::get<1>(value)[1] = ones({3});
  for_each_tensor(value, MemberPath("input"), [&](const MemberPath& path, Tensor& tensor) {
    names.push_back(path.expression());
    tensor = Tensor();
  });
  EXPECT_EQ(names, (std::vector<std::string>{"input[0][0].x", "input[0][0].children[0].x", "input[1][1]"}));
  EXPECT_FALSE(std::get<1>(value)[1].defined());
}

}  // namespace
}  // namespace lockstep
