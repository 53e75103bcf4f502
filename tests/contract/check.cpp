#include "contract/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "contract/run.h"

namespace lockstep::contract {
namespace {

// The allowed error of a value: relative to the largest value of its tensor, plus `least`. Values are sums over some
// hundred elements and six steps, some of which magnify errors: about 2^20, 2^10 and 2^4 roundings of float64, float32
// and 16-bit floats. Gradients that vanish consist of rounding alone.
struct Tolerance {
  double relative, least;
};
Tolerance tolerance(const Case& given, const Entry& entry) {
  const bool is_16_bit = entry.is_16_bit || !given.is("autocast", "off") || given.is("dtype", "bfloat16");
  if (is_16_bit) return {0.06, 0.03};
  return given.is("dtype", "float64") ? Tolerance{1e-10, 1e-12} : Tolerance{1e-4, 1e-5};
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

std::string text_of(double value) {
  std::ostringstream out;
  out.precision(9);
  out << value;
  return out.str();
}

std::string difference(const Entry& got, const std::vector<double>& values, const std::vector<double>& expected,
                       const Tolerance& tolerance, const std::string& whose) {
  if (values.size() != expected.size())
    return got.name + whose + " has " + std::to_string(values.size()) + " elements, expected " +
           std::to_string(expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i] - expected[i]) <= tolerance.relative * largest + tolerance.least) &&
        !(std::isnan(values[i]) && std::isnan(expected[i])))
      return got.name + whose + "[" + std::to_string(i) + "] is " + text_of(values[i]) + ", expected " +
             text_of(expected[i]);
  return "";
}

// Joins the parts of all processes.
std::vector<double> joined(const std::vector<Result>& results, std::size_t entry) {
  std::vector<double> all;
  for (const Result& result : results) {
    const Entry& part = result[entry];
    if (part.of == Entry::Of::rows) {
      all.insert(all.end(), part.values.begin(), part.values.end());
    } else if (part.weight != 0) {
      all.resize(part.values.size());
      for (std::size_t i = 0; i < all.size(); ++i) all[i] += part.weight * part.values[i];
    }
  }
  return all;
}

// The truth's own error in float32, for each entry. A few batch norms of two rows, differentiated twice, magnify
// roundings by 10^4: then no float32 result is within the tolerance.
std::vector<double> roundings(const Case& given, const Result& truth) {
  std::vector<double> all(truth.size());
  if (given.is("dtype", "float64")) return all;
  const Result exact = truth_of(given.with("dtype", "float64").with("autocast", "off"));
  for (std::size_t e = 0; e < all.size(); ++e) {
    const auto same = std::ranges::find(exact, truth[e].name, &Entry::name);  // 16-bit runs have master weights too
    if (same == exact.end() || same->values.size() != truth[e].values.size()) continue;
    for (std::size_t i = 0; i < truth[e].values.size(); ++i)
      all[e] = std::max(all[e], std::abs(truth[e].values[i] - same->values[i]));
  }
  return all;
}

// `magnified` has the truth's own rounding errors if the computation magnifies them, or is empty. Twice as much is
// allowed in 16 bits, where they are large, else eight times as much.
std::string against_truth(const Case& given, const std::vector<Result>& results, const Result& truth,
                          const std::vector<double>& magnified = {}) {
  for (const Result& result : results)
    if (!std::ranges::equal(result, truth, {}, &Entry::name, &Entry::name)) {
      std::string names;
      for (const Entry& each : truth)
        if (std::ranges::find(result, each.name, &Entry::name) == result.end()) names += ", no " + each.name;
      for (const Entry& each : result)
        if (std::ranges::find(truth, each.name, &Entry::name) == truth.end()) names += ", unexpected " + each.name;
      return "other results than the truth's" + names;
    }
  for (std::size_t e = 0; e < truth.size(); ++e) {
    std::string found;
    Tolerance allowed = tolerance(given, truth[e]);
    if (!magnified.empty()) allowed.least += (allowed.relative > 1e-2 ? 2 : 8) * magnified[e];
    if (truth[e].of != Entry::Of::all) {
      found = difference(truth[e], joined(results, e), truth[e].values, allowed, "");
    } else {
      for (std::size_t p = 0; p < results.size() && found.empty(); ++p)
        found = difference(results[p][e], results[p][e].values, truth[e].values, allowed,
                           results.size() > 1 ? " in process " + std::to_string(p) : "");
    }
    if (found.empty()) continue;
    return magnified.empty() ? against_truth(given, results, truth, roundings(given, truth)) : found;
  }
  return "";
}

// Compares bits: of all entries, or only of those that every process has.
std::string bits(const std::vector<Result>& results, const std::vector<Result>& others, bool all) {
  for (std::size_t p = 0; p < results.size(); ++p) {
    const Result &mine = results[p], &other = others.size() == results.size() ? others[p] : others[0];
    for (std::size_t e = 0; e < std::min(mine.size(), other.size()); ++e)
      if ((all || mine[e].of == Entry::Of::all) && !same_bits(mine[e].values, other[e].values)) {
        const std::string found = difference(mine[e], mine[e].values, other[e].values, {0, 0}, "");
        return found.empty() ? mine[e].name + " has other bits" : found;
      }
  }
  return "";
}

bool is_one_of(std::string_view value, std::initializer_list<std::string_view> values) {
  return std::ranges::find(values, value) != values.end();
}

}  // namespace

std::string fault_of(const Case& given) {
  std::string comparing = "the run";
  try {
    const Layout layout = layout_of(given);
    const std::vector<Result> results = run(given, layout);
    comparing = "the truth";
    if (const std::string found = against_truth(given, results, truth_of(given)); !found.empty())
      return "unlike one device: " + found;
    comparing = "a second run";
    for (std::uint64_t more = 1; more <= (given.is("delays", "on") ? 3u : 1u); ++more)
      if (const std::string found = bits(results, run(given, layout, {.delays = more}), true); !found.empty())
        return "unlike a second run: " + found;
    if (!given.is("step", "eager")) {
      comparing = "the eager run";
      const std::string found = bits(results, run(given, layout, {.eager = true}), true);
      if (!found.empty()) return "unlike eager steps: " + found;
    }
    if (!given.is("shard", "none")) {
      comparing = "the run without sharding";
      const std::string found = bits(results, run(given.with("shard", "none"), layout), false);
      if (!found.empty()) return "unlike without sharding: " + found;
    }
    // docs/many-hosts.md, "The same bits". (A regularizer is divided by the number of processes, which rounds.)
    if (layout.processes > 1 && given.is("reduction", "sum") && given.is("share", "even") &&
        given.is("split", "chunk") && !is_one_of(given["term"], {"l2", "own_backward"})) {
      comparing = "the run of one process";
      const std::string found = bits(results, run(given, {1, layout.processes * layout.devices}), false);
      if (!found.empty()) return "unlike one process with all devices: " + found;
    }
    return "";
  } catch (const std::exception& error) {
    return comparing + " throws: " + error.what();
  }
}

Case shrunk(const Case& given, const Constraints& rules) {
  const auto kind = [](const std::string& fault) { return fault.substr(0, fault.find(':')); };
  const std::string wanted = kind(fault_of(given));
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  Case smallest = given;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t f = 0; f < smallest.values.size(); ++f)
      for (std::uint8_t value = 0; value < smallest.values[f]; ++value) {
        if (std::chrono::steady_clock::now() > until) return smallest;
        Case tried = smallest;
        tried.values[f] = value;
        if (rules.broken_by(tried.values) || kind(fault_of(tried)) != wanted) continue;
        smallest = tried;
        smaller = true;
        break;
      }
  }
  return smallest;
}

}  // namespace lockstep::contract
