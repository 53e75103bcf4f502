// The contract: docs/contract.md. Also a program of its own:
//   contract_tests --case 'parts=conv devices=3 seed=17'   runs one case
//   contract_tests --random 1000 --seed 5                  runs random cases; prints and shrinks failures
//   contract_tests --cover                                 runs all pairs, and the triples
//   contract_tests --file cases.txt                        runs the case in each line, except meaningless ones
//   contract_tests --known                                 tells which known faults remain
// --all adds the combinations of known faults; --no-shrink prints failures unchanged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "contract/check.h"
#include "contract/covering.h"
#include "support/repetitions.h"

namespace lockstep::contract {
namespace {

// The present case, printed if the program crashes or hangs.
char running[4096] = "no case\n";

void tell_case(int signal) {
  const char* const what = signal == SIGALRM ? "contract: does not end: --case '" : "contract: crashes: --case '";
  for (const char* const part : {what, static_cast<const char*>(running), "'\n"})
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void begin_case(const Case& given) {
  static const bool handled = [] {
    for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGALRM}) std::signal(signal, tell_case);
    return true;
  }();
  static_cast<void>(handled);
  std::snprintf(running, sizeof running, "%s", given.text().c_str());
  alarm(300);
}

std::string checked(const Case& given) {
  begin_case(given);
  std::string found = fault_of(given);
  alarm(0);
  return found;
}

std::string report(const Case& given, const std::string& fault) {
  return fault + "\n  run it again: contract_tests --case '" + given.text() + "'";
}

TEST(CoveringArray, MeetsEveryPairAndTheTriples) {
  for (const bool with_known : {false, true}) {
    if (with_known && testing::kStride > 1) continue;
    const Constraints& rules = constraints(with_known);
    const std::vector<Case> cases = covering_array(rules, true);
    for (const Case& each : cases) EXPECT_EQ(rules.broken_by(each.values), nullptr) << each.text();
    const Coverage pairs = pairs_in(cases, rules), triples = triples_in(cases, rules);
    EXPECT_EQ(pairs.met, pairs.possible);
    EXPECT_EQ(triples.met, triples.possible);
    EXPECT_GT(pairs.possible, 5000u);
    EXPECT_GT(triples.possible, 5000u);
  }
}

TEST(Case, IsOneLineThatCanBeReadAgain) {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const Case drawn = random_case(seed, constraints(false));
    EXPECT_EQ(parsed(drawn.text()).values, drawn.values);
    EXPECT_EQ(parsed(drawn.text()).seed, seed);
  }
  EXPECT_THROW(parsed("devices=4"), std::invalid_argument);
  EXPECT_THROW(parsed("colour=red"), std::invalid_argument);
  EXPECT_THROW(parsed("devices"), std::invalid_argument);
}

const std::vector<Case>& pairs() {
  static const std::vector<Case> cases = covering_array(constraints(true), false);
  return cases;
}

constexpr int kParts = 8;  // tests that run at the same time; with sanitizers, each checks a fifth of its cases
class Pairs : public ::testing::TestWithParam<int> {};

TEST_P(Pairs, KeepTheContract) {
  for (std::size_t i = std::size_t(GetParam()); i < pairs().size(); i += std::size_t(kParts * testing::kStride)) {
    const std::string fault = checked(pairs()[i]);
    EXPECT_TRUE(fault.empty()) << report(pairs()[i], fault);
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, Pairs, ::testing::Range(0, kParts));

TEST(RandomCases, KeepTheContract) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  const std::uint64_t first = std::uint64_t(std::time(nullptr) / 86400) * 1000000;
  std::printf("the seed of this day: --random 1000 --seed %llu\n", static_cast<unsigned long long>(first));
  for (std::uint64_t seed = first; std::chrono::steady_clock::now() < until; ++seed) {
    const Case drawn = random_case(seed, constraints(true));
    const std::string fault = checked(drawn);
    EXPECT_TRUE(fault.empty()) << report(drawn, fault);
  }
}

// Options of the command line.
struct Options {
  std::string given, file;
  std::uint64_t random = 0, seed = 1;
  bool cover = false, known = false, all = false, shrinks = true;
};

int check_all(const std::vector<Case>& cases, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  std::size_t failures = 0;
  for (const Case& each : cases) {
    const std::string fault = checked(each);
    if (fault.empty()) continue;
    ++failures;
    std::printf("FAULT %s\n", report(each, fault).c_str());
    if (options.shrinks) {
      alarm(600);
      const Case small = shrunk(each, constraints(!options.all));
      alarm(0);
      std::printf("  smaller: --case '%s'\n  %s\n", small.text().c_str(), fault_of(small).c_str());
    }
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%zu cases, %zu faults, %.1f s\n", cases.size(), failures, seconds);
  return failures > 0;
}

// Tries some cases of each known fault that no other rule excludes.
int look_for_known() {
  for (std::size_t k = 0; k < known_faults().size(); ++k) {
    std::vector<Rule> others = meaningless();
    for (std::size_t i = 0; i < known_faults().size(); ++i)
      if (i != k) others.push_back(known_faults()[i]);
    const Constraints rules(others), all(known_faults());
    int tried = 0, faults = 0;
    std::string first;
    for (std::uint64_t seed = 1; seed <= 60 && faults < 2; ++seed) {
      std::vector<std::uint8_t> values = all.breaking(k, seed), whole = values;
      if (!rules.complete(whole)) continue;
      const Case drawn = random_case(seed, rules, values);
      const std::string fault = checked(drawn);
      ++tried;
      faults += !fault.empty();
      if (faults == 1 && first.empty()) first = fault.substr(0, 100) + "\n    --case '" + drawn.text() + "'\n";
    }
    const auto& [together, reason] = known_faults()[k];
    std::printf("%s {%.*s} %.*s: %d of %d\n%s", faults ? "THERE" : "GONE ", int(together.size()), together.data(),
                int(reason.size()), reason.data(), faults, tried, first.empty() ? "" : ("    " + first).c_str());
    std::fflush(stdout);
  }
  return 0;
}

int by_hand(const Options& options) {
  if (options.known) return look_for_known();
  const Constraints& rules = constraints(!options.all);
  std::vector<Case> cases;
  if (!options.given.empty()) {
    cases.push_back(parsed(options.given));
    if (const Rule* const broken = constraints(false).broken_by(cases[0].values))
      std::printf("means nothing: %s: %s\n", std::string(broken->together).c_str(),
                  std::string(broken->reason).c_str());
  }
  std::ifstream lines(options.file);
  for (std::string line; std::getline(lines, line);)
    if (const Case read = parsed(line); !rules.broken_by(read.values)) cases.push_back(read);
  if (options.cover) cases = covering_array(rules, true);
  for (std::uint64_t i = 0; i < options.random; ++i) cases.push_back(random_case(options.seed + i, rules));
  return check_all(cases, options);
}

}  // namespace
}  // namespace lockstep::contract

int main(int count, char** arguments) {
  lockstep::contract::Options options;
  bool any = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const auto next = [&] { return std::string(i + 1 < count ? arguments[++i] : ""); };
    if (word == "--case")
      any = true, options.given = next(), options.shrinks = false;
    else if (word == "--file")
      any = true, options.file = next();
    else if (word == "--random")
      any = true, options.random = std::stoull(next());
    else if (word == "--seed")
      options.seed = std::stoull(next());
    else if (word == "--cover")
      any = options.cover = true;
    else if (word == "--known")
      any = options.known = true;
    else if (word == "--all")
      options.all = true;
    else if (word == "--no-shrink")
      options.shrinks = false;
  }
  if (any) return lockstep::contract::by_hand(options);
  ::testing::InitGoogleTest(&count, arguments);
  return RUN_ALL_TESTS();
}
