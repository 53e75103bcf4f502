// Covering arrays: few cases in which every combination of a kind is met. Greedy and deterministic.
#pragma once

#include <cstddef>
#include <vector>

#include "contract/features.h"

namespace lockstep::contract {

/// How many combinations there are that some legal case has, and how many of them the cases have.
struct Coverage {
  std::size_t possible = 0, met = 0;
};
/// Of the values of every two features.
Coverage pairs_in(const std::vector<Case>& cases, const Constraints& rules);
/// Of the values of every three features that are in_triples.
Coverage triples_in(const std::vector<Case>& cases, const Constraints& rules);

/// Cases that meet every pair, and, `with_triples`, every triple of the features in_triples. Seeds count from 1.
std::vector<Case> covering_array(const Constraints& rules, bool with_triples);

/// A case whose features are drawn from a seed; about half of them are neutral. What is in `given` and not open stays.
Case random_case(std::uint64_t seed, const Constraints& rules, std::vector<std::uint8_t> given = {});

}  // namespace lockstep::contract
