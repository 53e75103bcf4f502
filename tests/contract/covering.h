// Covering arrays: few cases that together contain every combination of some kind. Greedy and deterministic.
#pragma once

#include <cstddef>
#include <vector>

#include "contract/features.h"

namespace lockstep::contract {

/// How many combinations are possible in legal cases, and how many of them the cases contain.
struct Coverage {
  std::size_t possible = 0, met = 0;
};
/// Counts the pairs of values of any two features.
Coverage pairs_in(const std::vector<Case>& cases, const Constraints& rules);
/// Counts the triples of values of any three features that are in_triples.
Coverage triples_in(const std::vector<Case>& cases, const Constraints& rules);

/// Cases that contain every pair, and `with_triples` every triple of the features in_triples. Seeds count from 1.
std::vector<Case> covering_array(const Constraints& rules, bool with_triples);

/// A case whose features are drawn from a seed; about half of them are neutral. Values in `given` that are not open are
/// kept.
Case random_case(std::uint64_t seed, const Constraints& rules, std::vector<std::uint8_t> given = {});

}  // namespace lockstep::contract
