// The features whose combinations are tried, and cases made of them. A feature is a row of features.cpp: a name and its
// values, of which the first is neutral (the feature is not used). A case has one value of each, and a seed.
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
  bool in_triples = false;               ///< It touches what replicas share: triples of these are covered, too.
};
const std::vector<Feature>& features();

/// Values that do not go together.
struct Rule {
  /// Words such as "where=inside_mean|inside_vector" or "processes!=1", which hold all at once in no case.
  std::string_view together;
  std::string_view reason;
};
/// Combinations that mean nothing, or that the library refuses by its documentation.
const std::vector<Rule>& meaningless();
/// Combinations that are wrong at present: known faults. They are left out of what continuous integration runs.
const std::vector<Rule>& known_faults();

/// One value of each feature, and what the data and the model are drawn from.
struct Case {
  std::vector<std::uint8_t> values =
      std::vector<std::uint8_t>(features().size());  ///< By feature: which of its values.
  std::uint64_t seed = 1;

  /// The name of the value. Throws std::invalid_argument for a feature that is not there.
  std::string_view operator[](std::string_view feature) const;
  bool is(std::string_view feature, std::string_view value) const;  ///< Throws for a value that is not there, too.
  int number(std::string_view feature) const;                       ///< Of a feature whose values are numbers.
  Case with(std::string_view feature, std::string_view value) const;
  /// Such as "devices=3 norm=sync seed=17": all that is not neutral.
  std::string text() const;
};
/// The reverse of text(). Throws std::invalid_argument naming the word that is wrong.
Case parsed(std::string_view text);

/// Rules in a form that is quick to look up.
class Constraints {
 public:
  static constexpr std::uint8_t kOpen = 255;  ///< In the place of a value: not chosen yet.

  explicit Constraints(std::span<const Rule> rules);
  /// The first rule that the values break, or null. What is open breaks nothing.
  const Rule* broken_by(const std::vector<std::uint8_t>& values) const;
  /// Gives what is open values, the neutral one where that can be; false if no values keep the rules.
  bool complete(std::vector<std::uint8_t>& values) const;
  /// Sets what the n-th rule speaks of so that it is broken, by one of the ways in which that can be; the rest is open.
  std::vector<std::uint8_t> breaking(std::size_t n, std::uint64_t way) const;

 private:
  struct Term {
    std::size_t feature;
    std::uint32_t mask;  // of the values for which it holds
  };
  struct Compiled {
    const Rule* rule;
    std::vector<Term> terms;
  };
  std::vector<Compiled> rules_;
};

/// meaningless(), and with_known also known_faults().
const Constraints& constraints(bool with_known);

}  // namespace lockstep::contract
