#include "contract/covering.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

namespace lockstep::contract {
namespace {

using Values = std::vector<std::uint8_t>;
constexpr std::uint8_t kOpen = Constraints::kOpen;

Values open_values() { return Values(features().size(), kOpen); }

// The combinations of the values of `kCount` features, and which of them are not covered yet.
template <std::size_t kCount>
class Combinations {
 public:
  using Which = std::array<std::size_t, kCount>;  // indices of features

  Combinations(std::vector<std::size_t> of, const Constraints& rules) : of_(std::move(of)) {
    Which which;
    each(which, 0, 0, [&] {
      std::size_t size = 1;
      for (const std::size_t f : which) size *= features()[f].values.size();
      Group group{which, std::vector<char>(size, 0)};
      for (std::size_t c = 0; c < size; ++c) {
        Values values = open_values();
        set(group, c, values);
        if (!rules.complete(values)) continue;
        group.left[c] = 1;
        ++possible_;
      }
      groups_.push_back(std::move(group));
    });
    left_ = possible_;
  }

  std::size_t possible() const { return possible_; }
  std::size_t left() const { return left_; }

  void meet(const Values& values) {
    for (Group& group : groups_) {
      char& left = group.left[place(group, values)];
      left_ -= std::size_t(left);
      left = 0;
    }
  }
  // The number of uncovered combinations in `values` that contain this feature. Combinations with open features do not
  // count.
  std::size_t gain(const Values& values, std::size_t feature) const {
    std::size_t sum = 0;
    for (const Group& group : groups_) {
      if (std::ranges::find(group.which, feature) == group.which.end()) continue;
      if (std::ranges::any_of(group.which, [&](std::size_t f) { return values[f] == kOpen; })) continue;
      sum += std::size_t(group.left[place(group, values)]);
    }
    return sum;
  }
  // Sets the values of the n-th uncovered combination, modulo their number.
  void begin(std::size_t n, Values& values) const {
    n %= left_;
    for (const Group& group : groups_)
      for (std::size_t c = 0; c < group.left.size(); ++c)
        if (group.left[c] && n-- == 0) return set(group, c, values);
  }

 private:
  struct Group {
    Which which;
    std::vector<char> left;
  };

  template <class F>
  void each(Which& which, std::size_t depth, std::size_t from, const F& f) {
    if (depth == kCount) return f();
    for (std::size_t i = from; i < of_.size(); ++i) {
      which[depth] = of_[i];
      each(which, depth + 1, i + 1, f);
    }
  }
  static std::size_t place(const Group& group, const Values& values) {
    std::size_t at = 0;
    for (const std::size_t f : group.which) at = at * features()[f].values.size() + values[f];
    return at;
  }
  static void set(const Group& group, std::size_t at, Values& values) {
    for (std::size_t i = kCount; i-- > 0;) {
      const std::size_t size = features()[group.which[i]].values.size();
      values[group.which[i]] = std::uint8_t(at % size);
      at /= size;
    }
  }

  std::vector<std::size_t> of_;
  std::vector<Group> groups_;
  std::size_t possible_ = 0, left_ = 0;
};

std::vector<std::size_t> features_of(bool in_triples) {
  std::vector<std::size_t> which;
  for (std::size_t f = 0; f < features().size(); ++f)
    if (!in_triples || features()[f].in_triples) which.push_back(f);
  return which;
}

template <std::size_t kCount>
Coverage coverage(std::vector<std::size_t> of, const std::vector<Case>& cases, const Constraints& rules) {
  Combinations<kCount> all(std::move(of), rules);
  for (const Case& each : cases) all.meet(each.values);
  return {all.possible(), all.possible() - all.left()};
}

// Adds cases until every combination is covered. Each case begins with an uncovered combination; then every other
// feature, in random order, gets the value that covers most.
template <std::size_t kCount>
void cover(Combinations<kCount>& all, const Constraints& rules, std::mt19937_64& random, std::vector<Case>& cases) {
  while (all.left() > 0) {
    Values values = open_values();
    all.begin(random(), values);
    std::vector<std::size_t> order = features_of(false);
    std::ranges::shuffle(order, random);
    for (const std::size_t f : order) {
      if (values[f] != kOpen) continue;
      std::size_t best_gain = 0;
      std::uint8_t best = kOpen;
      const auto count = std::uint8_t(features()[f].values.size());
      const auto first = std::uint8_t(random() % count);
      for (std::uint8_t i = 0; i < count; ++i) {
        values[f] = std::uint8_t((first + i) % count);
        const std::size_t gain = all.gain(values, f);
        if (best != kOpen && gain <= best_gain) continue;
        Values tried = values;
        if (!rules.complete(tried)) continue;
        best = values[f];
        best_gain = gain;
      }
      values[f] = best;
    }
    all.meet(values);
    cases.push_back({values, cases.size() + 1});
  }
}

}  // namespace

Coverage pairs_in(const std::vector<Case>& cases, const Constraints& rules) {
  return coverage<2>(features_of(false), cases, rules);
}

Coverage triples_in(const std::vector<Case>& cases, const Constraints& rules) {
  return coverage<3>(features_of(true), cases, rules);
}

std::vector<Case> covering_array(const Constraints& rules, bool with_triples) {
  std::mt19937_64 random(1);
  std::vector<Case> cases;
  Combinations<2> pairs(features_of(false), rules);
  cover(pairs, rules, random, cases);
  if (with_triples) {
    Combinations<3> triples(features_of(true), rules);
    for (const Case& each : cases) triples.meet(each.values);
    cover(triples, rules, random, cases);
  }
  return cases;
}

Case random_case(std::uint64_t seed, const Constraints& rules, Values given) {
  std::mt19937_64 random(seed);
  Values values = given.empty() ? open_values() : std::move(given);
  std::vector<std::size_t> order = features_of(false);
  std::ranges::shuffle(order, random);
  for (const std::size_t f : order) {
    if (values[f] != kOpen) continue;
    Values tried = values;
    tried[f] = random() % 2 ? std::uint8_t(0) : std::uint8_t(random() % features()[f].values.size());
    Values whole = tried;
    if (rules.complete(whole)) values = tried;
  }
  rules.complete(values);
  return {values, seed};
}

}  // namespace lockstep::contract
