#include <lockstep/parallel/process_pass.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <vector>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>
#include <lockstep/parallel/collectives.h>

#include "autograd/several_processes.h"
#include "core/text.h"
#include "distributed/call_log.h"
#include "distributed/same_lines.h"
#include "distributed/transport.h"
#include "nn/each_state.h"
#include "tensor/copy.h"
#include "tensor/deferred_memory.h"
#include "tensor/tensor_impl.h"

namespace lockstep::detail {
namespace {

// The weight of each process's loss, in proportion to its count (of rows or replicas); equal weights if all are 0.
std::shared_ptr<const autograd::ProcessShares> shares_by(const std::vector<std::int64_t>& of_each, std::size_t here) {
  const std::int64_t all = std::reduce(of_each.begin(), of_each.end());
  autograd::ProcessShares shares;
  shares.here = here;
  for (const std::int64_t own : of_each)
    shares.of_each.push_back(all > 0 ? double(own) / double(all) : 1 / double(of_each.size()));
  return std::make_shared<const autograd::ProcessShares>(std::move(shares));
}

// The rows of each process. Throws unless all processes have made the same calls.
std::vector<std::int64_t> rows_of_each(const World& world, CallLog& calls, std::int64_t rows) {
  struct Told {
    std::int64_t rows;
    std::uint64_t calls;
  };
  const Told mine = {rows, calls.hash()};
  std::vector<std::int64_t> of_each;
  bool same = true;
  for (const std::string& bytes :
       world.all_gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine), "a forward pass")) {
    Told told = {};
    std::memcpy(&told, bytes.data(), std::min(bytes.size(), sizeof told));
    of_each.push_back(told.rows);
    same = same && told.calls == mine.calls;
  }
  if (same) return calls.clear(), of_each;
  calls.compare("[DataParallel] expected the same use of a model in all processes since its last pass",
                "comparing the use of a model");
  return of_each;
}

bool are_equal_bytes(const Tensor& a, const Tensor& b) {  // on the CPU
  return std::memcmp(a.impl()->data(), b.impl()->data(), std::size_t(a.numel()) * size_of(a.dtype())) == 0;
}

}  // namespace

ProcessPass process_pass(const World& world, CallLog& calls, std::int64_t rows, std::size_t devices,
                         const ScatterOptions& options) {
  ProcessPass pass = {.rows = rows};
  const std::vector<std::int64_t> of_each = rows_of_each(world, calls, rows);
  pass.all_rows = std::reduce(of_each.begin(), of_each.end());
  const auto here = std::size_t(world.rank().value());
  pass.first_row = std::reduce(of_each.begin(), of_each.begin() + std::ptrdiff_t(here));
  pass.first_replica = here * devices;

  // If each process has just those rows that its devices would get from one process with all devices, then divide the
  // rows into shards as that process would.
  if (options.split == ScatterSplit::chunk && options.weights.empty() && pass.all_rows > 0) {
    const auto ranks = std::int64_t(devices) * world.size();
    const std::int64_t length = (pass.all_rows + ranks - 1) / ranks, most = length * std::int64_t(devices);
    std::int64_t left = pass.all_rows;
    const bool is_so = std::ranges::all_of(of_each, [&](std::int64_t got) {
      const std::int64_t due = std::min(most, left);
      left -= due;
      return got == due;
    });
    if (is_so) pass.length = length;
  }
  ScatterOptions dividing = options;
  dividing.length = pass.length;
  std::vector<std::int64_t> replicas;
  for (const std::int64_t rows_there : of_each) {
    const auto sizes = shard_sizes(rows_there, devices, dividing);
    replicas.push_back(pass.all_rows == 0 ? std::int64_t(sizes.size())
                                          : std::ranges::count_if(sizes, [](std::int64_t n) { return n > 0; }));
  }
  pass.all_replicas = std::size_t(std::reduce(replicas.begin(), replicas.end()));
  pass.by_replicas = shares_by(replicas, here);
  pass.by_rows = pass.all_rows > 0 ? shares_by(of_each, here) : pass.by_replicas;
  return pass;
}

void fail_processes(const World& world) noexcept {
  if (!world.transport() || world.was_thrown_on_all(std::current_exception())) return;
  std::string why = "something failed";
  try {
    throw;
  } catch (const std::exception& error) {
    try {
      why = error.what();
    } catch (...) {
    }
  } catch (...) {
  }
  try {
    world.transport()->fail(text("process ", world.rank().value(), " on ", world.host(world.rank()), " failed: ", why));
  } catch (...) {
    world.transport()->fail("a process failed");
  }
}

void check_and_broadcast_model(const World& world, nn::ModuleBase& module, Device device, const std::string& options) {
  if (world.size() == 1) return;
  std::string mine;  // the lines that have to be equal in all processes
  std::vector<nn::State*> states;
  nn::for_each_state(module, [&](const nn::Path& path, auto& value) {
    mine += text(nn::kind_name(value), " \"", path.str(), "\" ", value.sizes(), ' ', value.dtype(),
                 value.requires_grad() ? "" : " without a gradient", '\n');
    states.push_back(&value);
  });
  mine += options + '\n';
  world.agree(mine, "comparing models", [&](const std::vector<std::string>& of_each) {
    expect_same_lines("[DataParallel] expected the same model in all processes", world, of_each);
  });
  const NoGrad guard;
  Communicator communicator({device}, world), between_hosts({Device()}, world);
  for (nn::State* const state : states) {
    if (!state->defined() || state->numel() == 0) continue;
    const Tensor own = without_deferring(*state), former = own.detach().contiguous();
    const bool is_deferred = !own.is_same(*state);
    const Tensor values = is_deferred ? former.clone() : former;
    collective::broadcast(values.device() == device ? communicator : between_hosts, std::span(&values, 1), 0);
    if (is_deferred && are_equal_bytes(values, former)) continue;  // stays without memory
    if (!values.is_same(*state)) copy_values(*state, values), bump_version(*state);
  }
}

Tensor mark_pass_boundary(const Tensor& x, std::shared_ptr<const autograd::ProcessShares> shares) {
  return autograd::at_boundary(x, shares);
}

std::shared_ptr<autograd::ProcessShares> make_pending_shares() { return std::make_shared<autograd::ProcessShares>(); }

void set_shares(autograd::ProcessShares& shares, const ProcessPass& pass) { shares = *pass.by_rows; }

}  // namespace lockstep::detail
