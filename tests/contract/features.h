// The features whose combinations are tested, and cases made of them. A feature is a row of features.cpp: a name and
// its values, the first of which is neutral (the feature is not used). A case has one value of each feature, and a
// seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::contract {

struct Feature {
  std::string_view name;
  std::vector<std::string_view> values;  ///< The first is neutral.
  bool in_triples = false;               ///< It affects state that replicas share: triples of these are covered too.
};
const std::vector<Feature>& features();

/// A combination of values that no case may have.
struct Rule {
  /// Conditions such as "where=inside_mean|inside_vector" or "processes!=1"; no case may meet them all.
  std::string_view together;
  std::string_view reason;
};
/// Combinations that are meaningless, or that the library refuses as documented.
const std::vector<Rule>& meaningless();
/// Combinations that fail at present: known faults, which continuous integration skips.
const std::vector<Rule>& known_faults();

/// One value of each feature, and the seed of the data and the model.
struct Case {
  std::vector<std::uint8_t> values =
      std::vector<std::uint8_t>(features().size());  ///< The index of each feature's value.
  std::uint64_t seed = 1;

  /// The name of the feature's value. Throws std::invalid_argument for an unknown feature.
  std::string_view operator[](std::string_view feature) const;
  bool is(std::string_view feature, std::string_view value) const;  ///< Throws for an unknown value, too.
  int number(std::string_view feature) const;                       ///< The value of a numeric feature.
  Case with(std::string_view feature, std::string_view value) const;
  /// All values that are not neutral, and the seed, such as "devices=3 norm=sync seed=17".
  std::string text() const;
};
/// The inverse of text(). Throws std::invalid_argument naming the wrong word.
Case parsed(std::string_view text);

/// Rules compiled for fast checks.
class Constraints {
 public:
  static constexpr std::uint8_t kOpen = 255;  ///< Marks a feature without a value yet.

  explicit Constraints(std::span<const Rule> rules);
  /// The first rule that the values break, or null. Open features break no rule.
  const Rule* broken_by(const std::vector<std::uint8_t>& values) const;
  /// Fills in the open features, with neutral values if possible; false if no values keep the rules.
  bool complete(std::vector<std::uint8_t>& values) const;
  /// Values that break rule n, in one of the possible ways; the other features are open.
  std::vector<std::uint8_t> breaking(std::size_t n, std::uint64_t way) const;

 private:
  struct Term {
    std::size_t feature;
    std::uint32_t mask;  // of the values that meet the condition
  };
  struct Compiled {
    const Rule* rule;
    std::vector<Term> terms;
  };
  std::vector<Compiled> rules_;
};

/// The rules of meaningless() and, if with_known, of known_faults().
const Constraints& constraints(bool with_known);

}  // namespace lockstep::contract
