// Every barrier in the library's kernels is executed, and needed: without it some order of threads gives wrong results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "cuda/emulation/emulator.h"
#include "cuda/fake_devices.h"

namespace lockstep {
namespace {

using emulation::Order;
using emulation::settings;
using emulation::Site;

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::shuffled};

using Values = std::vector<double>;

Values values(const Tensor& x) { return x.detach().to(Device(), kFloat64).to_vector<double>(); }

// Results of all kinds of reductions: rows per warp and per block, and several rows per block; columns; whole tensors
// in pieces; softmax and losses, which reduce rows; norms of many tensors. Also a transposing copy.
std::vector<Values> reductions(Device device) {
  const NoGrad guard;
  manual_seed(3);
  const auto random = [&](const Shape& sizes) { return randn(sizes, {.dtype = kFloat64}).to(device); };
  const Tensor short_rows = random({40, 100}), long_rows = random({9, 2100}), columns = random({1100, 70});
  const Tensor weight = random({2100}), short_weight = random({100});
  const Tensor labels = randint(0, 100, {40}).to(device), long_labels = randint(0, 2100, {9}).to(device);
  std::vector<Values> results;
  const auto keep = [&](const Tensor& x) { results.push_back(values(x)); };
  keep(sum(short_rows, {1}));
  keep(sum(long_rows, {1}));
  keep(sum(columns, {0}));
  keep(sum(random({9000})));
  keep(argmax(long_rows, 1));
  keep(columns.t().contiguous());
  for (const Tensor& rows : {short_rows, long_rows}) {
    keep(softmax(rows, 1));
    keep(log_softmax(rows, 1));
  }
  keep(nn::layer_norm(short_rows, {100}, short_weight, short_weight));
  keep(nn::layer_norm(long_rows, {2100}, weight, weight));
  keep(nn::cross_entropy(short_rows, labels));
  keep(nn::cross_entropy(long_rows, long_labels));
  return results;
}

std::vector<Values> gradients(Device device) {
  manual_seed(4);
  std::vector<Values> results;
  for (const Shape& sizes : {Shape{40, 100}, Shape{9, 2100}}) {
    Tensor x = randn(sizes, {.dtype = kFloat64}).to(device).requires_grad_();
    Tensor weight = randn({sizes[1]}, {.dtype = kFloat64}).to(device).requires_grad_();
    const Tensor labels = randint(0, sizes[1], {sizes[0]}).to(device);
    const Tensor loss = sum(softmax(x, 1) * weight) + sum(log_softmax(x, 1) * weight) + nn::cross_entropy(x, labels) +
                        sum(nn::layer_norm(x, {sizes[1]}, weight, weight) * x.detach());
    loss.backward();
    results.push_back(values(x.grad()));
    results.push_back(values(weight.grad()));
    std::vector<Tensor> clipped = {x};
    results.push_back({optim::clip_grad_norm_(clipped, 1e9).item<double>()});
  }
  return results;
}

// Attention of 16-bit floats over several tiles, and its gradients, for both numbers of features that kernels are
// compiled for.
std::vector<Values> attention() {
  const FakeDevices devices({.cards = {0}}, 1, true, std::size_t(1) << 30);
  manual_seed(5);
  std::vector<Values> results;
  for (const std::int64_t features : {16, 72}) {
    std::vector<Tensor> x;
    for (int i = 0; i < 3; ++i)
      x.push_back(randn({1, 1, 150, features}).to(kBFloat16).to(Device::cuda(0)).requires_grad_());
    const Tensor y = nn::scaled_dot_product_attention(x[0], x[1], x[2]);
    y.backward(randn(y.sizes()).to(kBFloat16).to(Device::cuda(0)));
    results.push_back(values(y));
    for (const Tensor& leaf : x) results.push_back(values(leaf.grad()));
  }
  return results;
}

std::vector<Values> everything(Device device) {
  std::vector<Values> results = reductions(device);
  std::ranges::copy(gradients(device), std::back_inserter(results));
  return results;
}

bool agree(const std::vector<Values>& a, const std::vector<Values>& b) {
  return std::ranges::equal(a, b, [](const Values& x, const Values& y) {
    return std::ranges::equal(x, y, [](double p, double q) { return std::abs(p - q) <= 1e-9 * (1 + std::abs(q)); });
  });
}

// The results on one emulated card.
std::vector<Values> emulated() {
  const FakeDevices devices({.cards = {0}}, 1, true, std::size_t(1) << 30);
  return everything(Device::cuda(0));
}

// Sorts the sites, and shortens the file names to start at src or include: compilers record the paths that they were
// given, which a compiler cache may make relative and a build option may cut short.
std::vector<Site> within_sources(std::vector<Site> sites) {
  for (Site& site : sites) {
    const std::size_t inner = site.file.rfind("include/lockstep/");
    site.file = site.file.substr(inner != std::string_view::npos ? inner : site.file.rfind("src/"));
  }
  std::ranges::sort(sites);
  return sites;
}

// Returns the lines of the library's sources that contain a barrier.
std::vector<Site> barriers_in_sources(std::vector<std::string>& files) {
  std::vector<std::pair<std::string, unsigned>> found;
  for (const char* folder : {LOCKSTEP_SOURCE_DIR "/src", LOCKSTEP_SOURCE_DIR "/include"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream text(entry.path());
      unsigned number = 0;
      for (std::string line; std::getline(text, line);) {
        ++number;
        if (line.find("__syncthreads();") != std::string::npos) found.emplace_back(entry.path().string(), number);
      }
    }
  files.reserve(found.size());
  std::vector<Site> sites;
  for (const auto& [file, line] : found) sites.push_back({line, files.emplace_back(file)});
  return within_sources(std::move(sites));
}

TEST(Barriers, AreAllMetAndAllNeeded) {
  const emulation::Settings outer = settings();
  settings().barriers.clear();
  const std::vector<Values> expected = everything(Device()), expected_attention = attention();
  for (const Order order : kOrders) {
    settings().order = order;
    EXPECT_TRUE(agree(emulated(), expected)) << "order " << int(order);
    EXPECT_EQ(attention(), expected_attention) << "order " << int(order);
  }
  const std::vector<Site> met = settings().barriers;
  std::vector<std::string> files;
  EXPECT_EQ(within_sources(met), barriers_in_sources(files)) << "a barrier in the sources that no kernel here comes to";

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer would end the program at the first race
  for (const Site& barrier : met) {
    bool shows = false;
    settings().without = barrier;
    for (const Order order : kOrders) {
      settings().order = order;
      const bool in_attention = barrier.file.find("cuda/attention/") != std::string_view::npos;
      shows = shows || (in_attention ? attention() != expected_attention : !agree(emulated(), expected));
    }
    EXPECT_TRUE(shows) << "nothing shows that a barrier is missing: " << barrier.file << ':' << barrier.line;
  }
#endif
  settings() = outer;
}

}  // namespace
}  // namespace lockstep
