// Reconciles the changes that a forward pass made in the states (parameters and buffers) of the module and its
// replicas: refuses changes of trained parameters, and gives all other states, in all processes, the values that
// nn::BufferSync defines.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/parallel/collectives.h>

#include "core/text.h"
#include "nn/each_state.h"
#include "parallel/in_lockstep.h"
#include "parallel/replica_group_impl.h"
#include "parallel/replica_sync.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

using nn::BufferSync;

// The path of state number `number`.
std::string path_of(const nn::ModuleBase& module, std::size_t number) {
  std::string path;
  std::size_t left = number;
  nn::for_each_state(module, [&](const nn::Path& at, const nn::State&) {
    if (left-- == 0) path = at.str();
  });
  return path;
}

// For one state and one process: the number of its replicas that changed the state, or one of the marks below.
using Changes = std::uint16_t;
constexpr Changes kTrained = 0xFFFF;      // a trained parameter, which no replica has changed
constexpr Changes kWithoutRows = 0xFFFE;  // changed only by replicas without rows, while others had rows

// Exchanges `own`, the Changes of each state in this process. Returns those of all processes, by process.
std::vector<std::vector<Changes>> of_all_processes(const World& world, const std::vector<Changes>& own) {
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(Changes));
  std::vector<std::vector<Changes>> all;
  for (const std::string& part : world.all_gather(bytes, "the end of a forward pass")) {
    std::vector<Changes>& changes = all.emplace_back(part.size() / sizeof(Changes));
    std::memcpy(changes.data(), part.data(), part.size());
  }
  return all;
}

// The changes of one pass.
class PassChanges {
 public:
  PassChanges(ReplicaSync::Impl& sync, nn::ModuleBase& module, std::span<const std::int64_t> rows,
              std::int64_t all_rows, ReplicaGroup& group)
      : sync_(sync), module_(module), primary_(module), rows_(rows), any_rows_(all_rows > 0), group_(group.impl()) {}

  void check_trained_unchanged() const;
  void reconcile();

 private:
  std::size_t ran() const { return rows_.size(); }
  nn::State& state(std::size_t replica, std::size_t k) const { return sync_.state(primary_, replica, k); }
  bool changed(std::size_t replica, std::size_t k) const { return sync_.has_changed(primary_, replica, k); }
  // False if the replica's statistics are meaningless, because it had no rows while other replicas had some.
  bool counts(std::size_t replica) const { return !any_rows_ || rows_[replica] > 0; }
  Changes own_changes(std::size_t k) const;
  void check_same_trained(const std::vector<std::vector<Changes>>& all) const;
  void reconcile(std::size_t k, std::span<const Changes> of_each);
  void average(std::span<const std::size_t> which, std::size_t count);
  void take_from(std::size_t process, std::size_t k);

  ReplicaSync::Impl& sync_;
  nn::ModuleBase& module_;
  const ModuleState primary_;
  const std::span<const std::int64_t> rows_;
  const bool any_rows_;
  ReplicaGroup::Impl& group_;
  std::map<std::tuple<DType, std::size_t>, std::vector<std::size_t>> means_;  // by dtype and number of replicas
};

void PassChanges::check_trained_unchanged() const {
  for (std::size_t k = 0; k < primary_.states.size(); ++k) {
    const auto& transient = primary_.states[k].state->impl()->storage->transient;
    const bool is_sharded = transient && !transient->stays();
    if (!primary_.states[k].is_trained() && !is_sharded) continue;
    for (std::size_t r = 0; r < ran(); ++r)
      if (changed(r, k) && is_sharded)
        throw InvalidArgument(text("[DataParallel] expected forward to leave sharded parameter \"", path_of(module_, k),
                                   "\" as it is, got it changed in place in replica ", r, " on ", state(r, k).device(),
                                   ": change it outside of forward, or make it a buffer, which is not sharded"));
      else if (changed(r, k))
        throw InvalidArgument(
            text("[DataParallel] expected forward to leave parameter \"", path_of(module_, k),
                 "\" as it is, got it changed in place in replica ", r, " on ", state(r, k).device(),
                 ": the replicas' values would differ. Change it outside of forward, for example after "
                 "optimizer.step(). Or let it require no gradient: then all replicas get the first replica's value, as "
                 "for a buffer"));
  }
}

Changes PassChanges::own_changes(std::size_t k) const {
  const ModuleState::Item& item = primary_.states[k];
  if (item.is_trained()) return kTrained;
  if (item.sync == BufferSync::primary) return changed(0, k);
  Changes count = 0;
  bool without_rows = false;
  for (std::size_t r = 0; r < ran(); ++r)
    if (changed(r, k)) {
      const bool is_counted = item.sync == BufferSync::equal || counts(r);
      count += is_counted;
      without_rows = without_rows || !is_counted;
    }
  return count == 0 && without_rows ? kWithoutRows : count;
}

void PassChanges::check_same_trained(const std::vector<std::vector<Changes>>& all) const {
  for (std::size_t p = 1; p < all.size(); ++p)
    for (std::size_t k = 0; k < primary_.states.size(); ++k)
      if ((all[p][k] == kTrained) != (all[0][k] == kTrained))
        throw InvalidArgument(text("[DataParallel] expected parameter \"", path_of(module_, k),
                                   "\" to require a gradient in all processes or in none, got one that does only in "
                                   "process ",
                                   all[p][k] == kTrained ? p : 0, " of processes 0 and ", p));
}

void PassChanges::reconcile() {
  std::vector<Changes> own;
  for (std::size_t k = 0; k < primary_.states.size(); ++k) own.push_back(own_changes(k));
  const bool any = std::ranges::any_of(own, [](Changes c) { return c != kTrained; });
  if (!any) return;
  const auto all = of_all_processes(group_.world, own);
  check_same_trained(all);
  std::vector<Changes> of_each(all.size());
  for (std::size_t k = 0; k < primary_.states.size(); ++k) {
    for (std::size_t p = 0; p < all.size(); ++p) of_each[p] = all[p][k];
    if (of_each[0] != kTrained) reconcile(k, of_each);
  }
  for (const auto& [key, which] : means_) average(which, std::get<1>(key));
}

void PassChanges::reconcile(std::size_t k, std::span<const Changes> of_each) {
  const bool alone = of_each.size() == 1;
  const auto changed_it = [](Changes c) { return c != 0; };
  if (std::ranges::none_of(of_each, changed_it)) return;
  switch (primary_.states[k].sync) {
    case BufferSync::primary:
      if (!alone) take_from(0, k);
      break;
    case BufferSync::mean: {
      if (alone && ran() == 1) break;
      std::size_t count = 0;
      for (const Changes c : of_each) count += c == kWithoutRows ? 0 : c;
      if (count > 0)
        means_[{state(0, k).dtype(), count}].push_back(k);
      else if (!alone)
        take_from(0, k);
      break;
    }
    case BufferSync::equal: {
      // The replicas that changed the buffer have computed equal values. If the primary is not among them, it copies
      // the value of the first. (The other replicas get the primary's value before the next pass.)
      if (!changed(0, k))
        for (std::size_t r = 1; r < ran(); ++r)
          if (changed(r, k)) {
            bring_in_lockstep(state(r, k), state(0, k));
            break;
          }
      if (!std::ranges::all_of(of_each, changed_it))
        take_from(std::size_t(std::ranges::find_if(of_each, changed_it) - of_each.begin()), k);
      break;
    }
  }
}

// Broadcasts one process's value to the primaries of all processes. Their replicas get it before the next pass.
void PassChanges::take_from(std::size_t process, std::size_t k) {
  nn::State& own = state(0, k);
  if (own.numel() == 0) return;
  const Tensor values = own.detach().contiguous();
  group_.broadcast(values, process);
  if (std::size_t(group_.world.rank().value()) == process) return;
  if (!values.is_same(own)) copy_values(own, values);
  bump_version(own);
}

// Averages all these states at once, in one array on each device, over the replicas that changed them.
void PassChanges::average(std::span<const std::size_t> which, std::size_t count) {
  std::int64_t elements = 0;
  for (const std::size_t k : which) elements += state(0, k).numel();
  std::vector<Tensor> flats;
  std::vector<Stream> streams;
  const auto for_each = [&](std::size_t replica, const auto& visit) {
    std::int64_t at = 0;
    for (const std::size_t k : which) {
      nn::State& own = state(replica, k);
      visit(k, own, make_view(flats[replica], own.sizes(), contiguous_strides(own.sizes()), at));
      at += own.numel();
    }
  };
  for (std::size_t r = 0; r < ran(); ++r) {
    const nn::State& first = state(r, which[0]);
    flats.push_back(make_tensor(device_state(first.device()), {elements}, first.dtype()));
    streams.push_back(current_stream(first.device()));
    for_each(r, [&](std::size_t k, const nn::State& own, const Tensor& place) {
      if (counts(r) && changed(r, k))
        copy_values(place, own);
      else
        fill_sum_identity(place);
    });
  }
  group_.mean(flats, streams, count);
  for (std::size_t r = 0; r < ran(); ++r)
    for_each(r, [](std::size_t, nn::State& own, const Tensor& place) {
      copy_values(own, place);
      bump_version(own);
    });
  for (std::size_t r = 1; r < ran(); ++r)
    for (const std::size_t k : which) sync_.replicas[r - 1].are_equal(k, state(0, k));
}

}  // namespace

void ReplicaSync::end_pass(nn::ModuleBase& primary, std::span<const std::int64_t> rows, std::int64_t all_rows,
                           ReplicaGroup& group) {
  if (!impl_->is_set) return;
  const NoGrad guard;
  PassChanges changes(*impl_, primary, rows, all_rows, group);
  changes.check_trained_unchanged();
  changes.reconcile();
}

}  // namespace lockstep
