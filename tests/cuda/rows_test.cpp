// Teams of threads on rows: which thread visits which element, and the results that a team agrees on. The operands'
// memory ends with their last element, for AddressSanitizer. A thread that does another's work changes the counts, and
// ThreadSanitizer reports it as a race.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "kernels/rows/rows.h"

namespace lockstep {
namespace {

using emulation::Order;
using Numbers = std::vector<std::int64_t>;

// Adds 1 to each element. Then the thread that visited the element named by the input multiplies it.
template <bool kDivided>
struct Visit {
  static constexpr int kIndependentOperand = kDivided ? 0 : -1;
  template <class Team>
  void operator()(const Team& team, RowOf<std::int64_t> out, RowOf<const std::int64_t> x) const {
    team.each(out.length, [&](std::int64_t i) { out[i] += 1; });
    const std::int64_t named = x[0] % out.length;
    if (team.visits(named)) out[named] *= 100;
  }
};

// Each thread writes the team's sums to the elements that it visits.
struct Agree {
  template <class Team>
  void operator()(const Team& team, RowOf<std::int64_t> out, RowOf<const std::int64_t> x) const {
    const std::int64_t sum = sum_over(team, x.length, [&](std::int64_t i) { return x[i]; });
    const std::int64_t less = sum_over(team, x.length, [&](std::int64_t i) { return x[i] - 1; });
    const auto [ones, twice] = sum_over(team, x.length, [&](std::int64_t i) {
      return TwoSums<std::int64_t>{1, 2 * x[i]};
    });
    team.each(out.length, [&](std::int64_t i) { out[i] = sum + less + twice + ones; });
    if (team.first()) out[0] += 1;
  }
};

// The same in packs: the function takes rows of any type. A team that keeps a row reads it only once, in kept().
struct AgreeByPacks {
  template <class Team, class To, class From>
  void operator()(const Team& team, To out, From from, From other) const {
    const auto& x = team.kept(from);
    const std::int64_t sum = sum_over(team, x.length, [&](auto i) { return x[i]; });
    const std::int64_t none = sum_over(team, 0, [&](auto i) { return x[i]; });
    const auto [ones, products] = sum_over(team, x.length, [&](auto i) {
      return TwoSums<std::int64_t>{1, x[i] * other[i]};
    });
    team.fill(out, [&](auto i) { return sum + none + ones + products + 3 * x[i] + other[i]; });
  }
};

struct RowsCase {
  std::int64_t rows, length;
  bool across;  // [length, rows] in memory
};

class RowTeams : public ::testing::TestWithParam<std::tuple<RowsCase, Order>> {
 protected:
  RowTeams() { emulation::settings().order = std::get<Order>(GetParam()); }
  ~RowTeams() override { emulation::settings() = outer_; }

  std::size_t at(std::int64_t row, std::int64_t i) const {
    return std::size_t(rows.across ? i * rows.rows + row : row * rows.length + i);
  }

  template <class F>
  Numbers run(const Numbers& x, unsigned blocks) const {
    Numbers out(x.size());
    const Shape outer = {rows.across ? 1 : rows.length};
    const std::int64_t step = rows.across ? rows.rows : 1;
    const RowGeometry<2> all = {{{rows.rows}, {outer, outer}, rows.rows}, {rows.length, rows.length}, {step, step}};
    const RowKernel<F, std::int64_t, std::int64_t> kernel{all, F(), out.data(), {x.data()}};
    const gpu::RowsOf<2> of{rows.rows, gpu::Walk<2>(kernel.outer), kernel.lengths, kernel.steps};
    const gpu::RowGrid grid = gpu::grid_for(kernel);
    emulation::run_grid(dim3(blocks, grid.blocks), gpu::kThreads, [&] {
      gpu::run_rows<F, std::int64_t, std::int64_t>(F(), grid.shape, of, out.data(), x.data());
    });
    return out;
  }

  const RowsCase rows = std::get<RowsCase>(GetParam());

 private:
  const emulation::Settings outer_ = emulation::settings();
};

const std::vector<RowsCase> kRowsCases = {{1, 1, false},   {300, 1, false},  {3, 5, false},    {40, 10, false},
                                          {9, 33, false},  {9, 1024, false}, {3, 1025, false}, {1, 9000, false},
                                          {300, 5, true},  {50, 31, true},   {50, 32, true},   {40, 100, true},
                                          {20, 1025, true}};

std::string name_of(const ::testing::TestParamInfo<std::tuple<RowsCase, Order>>& teams) {
  const auto& [rows, order] = teams.param;
  return std::to_string(rows.rows) + "x" + std::to_string(rows.length) + (rows.across ? "Across" : "Along") +
         std::to_string(int(order));
}

INSTANTIATE_TEST_SUITE_P(, RowTeams,
                         ::testing::Combine(::testing::ValuesIn(kRowsCases),
                                            ::testing::Values(Order::forward, Order::reverse, Order::shuffled)),
                         name_of);

TEST_P(RowTeams, VisitEachElementOnce) {
  Numbers x(std::size_t(rows.rows * rows.length));
  std::iota(x.begin(), x.end(), 0);
  Numbers expected(x.size(), 1);
  for (std::int64_t r = 0; r < rows.rows; ++r) expected[at(r, x[at(r, 0)] % rows.length)] = 100;
  for (const unsigned blocks : {1u, 2u}) {
    EXPECT_EQ(run<Visit<false>>(x, blocks), expected);
    EXPECT_EQ(run<Visit<true>>(x, blocks), expected);
  }
}

TEST_P(RowTeams, AgreeOnSums) {
  Numbers x(std::size_t(rows.rows * rows.length)), expected(x.size());
  std::iota(x.begin(), x.end(), 1);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < rows.length; ++i) sum += x[at(r, i)];
    for (std::int64_t i = 0; i < rows.length; ++i) expected[at(r, i)] = 4 * sum + (i == 0);
  }
  for (const unsigned blocks : {1u, 2u}) EXPECT_EQ(run<Agree>(x, blocks), expected);
}

class RowTeamsByPacks : public RowTeams {};

INSTANTIATE_TEST_SUITE_P(, RowTeamsByPacks,
                         ::testing::Combine(::testing::ValuesIn(std::vector<RowsCase>{{1, 2, false},
                                                                                      {300, 2, false},
                                                                                      {40, 10, false},
                                                                                      {9, 34, false},
                                                                                      {9, 1024, false},
                                                                                      {3, 1026, false},
                                                                                      {1, 9000, false}}),
                                            ::testing::Values(Order::forward, Order::reverse, Order::shuffled)),
                         name_of);

// Tests every shape of team, with as many packs per thread as a row needs; 0: the team keeps no row.
TEST_P(RowTeamsByPacks, VisitAndReduce) {
  using gpu::TeamShape;
  Numbers x(std::size_t(rows.rows * rows.length)), other(std::size_t(rows.length)), expected(x.size());
  std::iota(x.begin(), x.end(), 1);
  std::iota(other.begin(), other.end(), -5);  // shared by all rows
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    std::int64_t sum = rows.length;
    for (std::int64_t i = 0; i < rows.length; ++i) sum += x[at(r, i)] + x[at(r, i)] * other[std::size_t(i)];
    for (std::int64_t i = 0; i < rows.length; ++i) expected[at(r, i)] = sum + 3 * x[at(r, i)] + other[std::size_t(i)];
  }
  const Geometry<3> outer = {{rows.rows}, {Shape{rows.length}, Shape{rows.length}, Shape{0}}, rows.rows};
  const gpu::RowsOf<3> of{rows.rows, gpu::Walk<3>(outer), {rows.length, rows.length, rows.length}, {1, 1, 1}};
  const auto expect = [&]<int kSlots>(TeamShape shape) {
    for (const unsigned blocks : {1u, 2u}) {
      Numbers out(x.size());
      emulation::run_grid(dim3(blocks), gpu::kThreads, [&] {
        gpu::run_rows_in_packs<2, kSlots, AgreeByPacks, std::int64_t, std::int64_t, std::int64_t>(
            AgreeByPacks(), shape, of, out.data(), x.data(), other.data());
      });
      EXPECT_EQ(out, expected) << shape.size << " threads, " << kSlots << " packs";
    }
  };
  for (const int size : {1, 4, 32, 256}) {
    const std::int64_t of_thread = (rows.length / 2 + size - 1) / size;
    expect.operator()<0>({size, 1});
    if (of_thread <= 4) expect.operator()<4>({size, 1});
    if (of_thread <= 20) expect.operator()<20>({size, 1});
  }
}

}  // namespace
}  // namespace lockstep
