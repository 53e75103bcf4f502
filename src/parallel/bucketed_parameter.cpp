#include "parallel/bucketed_parameter.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <lockstep/autograd/grad_mode.h>
#include <lockstep/core/error.h>

#include "core/text.h"
#include "parallel/in_lockstep.h"
#include "tensor/copy.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 6> kStateNames = {"none", "partial", "summed", "sharded", "primary", "stale"};

// kLegal[from][to] is 'x' for a legal transition.
constexpr std::array<std::string_view, 6> kLegal = {
    "xx..xx",  // none
    "xxxxxx",  // partial
    "xxxxxx",  // summed
    "xxxxxx",  // sharded
    "xxx.xx",  // primary
    ".....x",  // stale
};

bool is_like(const Tensor& a, const Tensor& b) {
  return a.device() == b.device() && a.dtype() == b.dtype() && a.sizes() == b.sizes();
}

// Copies the gradient to the slot, unless backward has written it there (grad_bucket_view()). Returns the slot.
Tensor write_to_slot(const Tensor& gradient, const Tensor& slot) {
  if (!gradient.is_same(slot)) copy_values(slot, gradient);
  bump_version(slot);
  return slot;
}

}  // namespace

bool is_legal(GradientState from, GradientState to) noexcept {
  return kLegal[std::size_t(from)][std::size_t(to)] == 'x';
}

void zero_outside(const Tensor& tensor, autograd::ShardRange part) {
  const auto zero = [&](std::int64_t from, std::int64_t to) {
    if (from < to) fill_values(make_view(tensor, {to - from}, {1}, tensor.impl()->offset + from), 0);
  };
  zero(0, part.begin);
  zero(part.end, tensor.numel());
}

BucketedParameter::BucketedParameter(std::span<const Tensor> tensors, std::weak_ptr<ReplicaOwner> owner,
                                     std::size_t entry, World world, std::shared_ptr<CallLog> calls)
    : owner_(std::move(owner)), world_(std::move(world)), slots_(tensors.size()) {
  entry_ = entry;
  calls_ = std::move(calls);
  replicas_.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    replicas_.push_back({this, replicas_.size(), tensor, {0, tensor.numel()}});
    autograd::make_meta(tensor);
  }
  if (gradient(0).defined()) state_ = GradientState::primary;
}

void BucketedParameter::attach() {
  for (const Replica& replica : replicas_) meta(replica.index).replica = {shared_from_this(), &replica};
}

std::vector<Tensor> BucketedParameter::tensors() const {
  std::vector<Tensor> all;
  for (const Replica& replica : replicas_) all.push_back(replica.tensor);
  return all;
}

ShardedTensor BucketedParameter::sharded_values() const { return {tensors(), shards_}; }

ShardedTensor BucketedParameter::sharded_gradient() const { return {slots_, shards_}; }

void BucketedParameter::advance(GradientState next) {
  if (!is_legal(state_, next))
    throw AutogradError(text("[BucketedParameter] internal error: illegal gradient state transition from ",
                             kStateNames[std::size_t(state_)], " to ", kStateNames[std::size_t(next)],
                             ". Please report it"));
  state_ = next;
}

void BucketedParameter::copy_gradient(std::size_t replica, const Tensor& to) const {
  if (!gradient(replica).defined()) return;
  copy_values(to, gradient(replica));
  if (is_sharded_ && was_summed()) zero_outside(to, replicas_[replica].shard);
}

void BucketedParameter::set_slots(std::vector<Tensor> memory, std::span<const ShardRange> shards) {
  slots_ = std::move(memory);
  for (std::size_t r = 0; r < size(); ++r)
    if (gradient(r).defined()) set_grad(r, slot(r));
  // Each replica has its shard of the sum, by the old division, and zeros elsewhere (copy_gradient()). In the new
  // division these are parts of a sum: summing them over the replicas gives the whole sum.
  if (is_sharded_ && was_summed()) advance(GradientState::partial);
  is_sharded_ = !shards.empty();
  shards_.assign(shards.begin(), shards.end());
  const std::size_t first_rank = std::size_t(world_.rank().value()) * size();
  for (Replica& replica : replicas_) replica.shard = is_sharded_ ? shards[first_rank + replica.index] : all();
  shard_layout_ = nullptr;
  if (is_sharded_ && world_.size() > 1)
    shard_layout_ = std::make_shared<autograd::ShardLayout>(autograd::ShardLayout{world_, first_rank, shards_});
}

bool BucketedParameter::fits_slot(std::size_t replica) const {
  return slot(replica).defined() && is_like(tensor(replica), slot(replica));
}

bool BucketedParameter::fits_slots() const {
  for (std::size_t r = 0; r < size(); ++r)
    if (!fits_slot(r)) return false;
  return true;
}

void BucketedParameter::check_sharded_in_place() const {
  if (!is_sharded_ || !has_gradient()) return;
  for (const Replica& replica : replicas_)
    if (const Device there = slot(replica.index).device(); replica.tensor.device() != there)
      throw InvalidArgument(text("[DataParallel] expected a parameter to stay on ", there,
                                 " while its optimizer state is sharded, got it on ", replica.tensor.device()));
}

bool BucketedParameter::has_gradient() const {
  return has_earlier_sum_ ||
         std::ranges::any_of(replicas_, [this](const Replica& replica) { return gradient(replica.index).defined(); });
}

Tensor BucketedParameter::grad_bucket_view(const Replica& replica) const {
  return gradient(replica.index).defined() ? Tensor() : slot(replica.index);
}

void BucketedParameter::accumulate(const Replica& replica, const Tensor& gradient) {
  Tensor& present = meta(replica.index).grad;
  if (grad_enabled()) {  // keeps the gradient's graph, which join_graphs() extends
    present = present.defined() ? present.add(gradient) : gradient;
  } else if (!present.defined()) {
    present = write_to_slot(gradient, slot(replica.index));
  } else {
    prepare_sum(replica.index);
    present = slot(replica.index);
    const NoGrad guard;
    present.add_(gradient);
  }
}

void BucketedParameter::keep_earlier_sum() {
  for (std::size_t r = 0; r < size(); ++r) set_grad(r, Tensor());
  has_earlier_sum_ = true;
  advance(GradientState::partial);
}

void BucketedParameter::prepare_sum(std::size_t replica) const {
  const Tensor &present = gradient(replica), &own = slot(replica);
  // (In state `primary` a user has set a gradient that does not fit the slot. It is not summed: it stays in the
  // primary.)
  if (!present.defined() || state_ == GradientState::primary) return fill_values(own, 0);
  if (!present.is_same(own)) write_to_slot(present, own);  // a gradient that the user has set
}

void BucketedParameter::take_sum(bool used_somewhere) {
  if (!used_somewhere && !has_gradient()) return advance(GradientState::none);
  if (state_ != GradientState::partial) advance(GradientState::partial);
  for (std::size_t r = 0; r < size(); ++r) {
    bump_version(slot(r));
    set_grad(r, slot(r));
  }
  has_earlier_sum_ = false;
  advance(is_sharded_ ? GradientState::sharded : GradientState::summed);
}

void BucketedParameter::join_graphs() {
  const GradMode recorded(true);
  Tensor sum;
  for (std::size_t r = 0; r < size(); ++r) {
    if (!gradient(r).defined()) continue;
    const Tensor part =
        gradient(r).device() == tensor(0).device() ? gradient(r).clone() : gradient(r).to(tensor(0).device());
    sum = sum.defined() ? sum.add(part) : part;
  }
  set_whole_gradient(sum, true);
}

Tensor BucketedParameter::take_gradient() {
  const Tensor whole = gradient(0);
  drop_gradients();
  return whole.defined() && whole.is_same(slot(0)) ? copied(whole, *whole.impl()->storage->device, whole.dtype())
                                                   : whole;
}

void BucketedParameter::set_whole_gradient(const Tensor& gradient, bool keeps_graph) {
  if (!keeps_graph) return set_gradient(replicas_[0], gradient);
  drop_gradients();
  if (!gradient.defined()) return;
  set_grad(0, gradient);
  advance(GradientState::primary);
}

void BucketedParameter::drop_gradients() {
  for (std::size_t r = 0; r < size(); ++r) set_grad(r, Tensor());
  has_earlier_sum_ = false;
  advance(GradientState::none);
}

bool BucketedParameter::primary_fits_slot() const { return is_like(gradient(0), slot(0)); }

void BucketedParameter::copy_gradient_from_primary() {
  if (!gradient(0).is_same(slot(0))) write_to_slot(gradient(0), slot(0));
  for (std::size_t r = 0; r < size(); ++r) {
    if (r > 0) copy_values(slot(r), gradient(0));
    set_grad(r, slot(r));
  }
  advance(GradientState::summed);
}

void BucketedParameter::copy_value_from_primary() {
  if (const auto& memory = tensor(0).impl()->storage->transient) memory->publish();  // even without other replicas
  for (std::size_t r = 1; r < size(); ++r)
    if (!are_in_lockstep(tensor(0), tensor(r))) bring_in_lockstep(tensor(0), tensor(r));
}

void BucketedParameter::release() noexcept {
  const bool is_whole = state_ == GradientState::summed || state_ == GradientState::primary;
  for (Replica& replica : replicas_) {
    if (!is_whole) set_grad(replica.index, Tensor());
    replica.tensor = Tensor();
  }
  slots_.clear();
  state_ = GradientState::stale;
  is_stale_ = true;
}

void BucketedParameter::check_idle(const char* op) const {
  if (const auto owner = owner_.lock()) owner->check_idle(op);
}

void BucketedParameter::complete_gradient() {
  if (const auto owner = owner_.lock()) owner->complete_gradient(entry_);
}

void BucketedParameter::set_gradient(const Replica& replica, const Tensor& gradient) {
  check_idle("set_grad");
  Tensor stored = gradient;
  if (gradient.defined() && fits_slot(replica.index)) {
    const bool overlaps = gradient.impl()->storage == slot(replica.index).impl()->storage;
    stored = write_to_slot(overlaps ? gradient.detach().clone() : gradient, slot(replica.index));
  }
  drop_gradients();
  if (!stored.defined()) {
    if (const auto owner = owner_.lock()) owner->gradient_dropped(entry_);
    return;
  }
  set_grad(replica.index, stored);
  advance(replica.index == 0 ? GradientState::primary : GradientState::partial);
}

void BucketedParameter::reconcile() {
  if (const auto owner = owner_.lock()) owner->reconcile(entry_);
}

void BucketedParameter::gradient_changed() {
  if (is_sharded_) advance(GradientState::sharded);
}

void BucketedParameter::begin_update() {
  if (const auto owner = owner_.lock()) owner->begin_update();
}

void BucketedParameter::abandon_update(bool fails_others) noexcept {
  if (const auto owner = owner_.lock()) owner->abandon_update(fails_others);
}

void BucketedParameter::all_gather(std::span<autograd::ReplicatedParameter* const> parameters) {
  if (const auto owner = owner_.lock()) owner->all_gather(parameters);
}

std::vector<Tensor> BucketedParameter::all_gather_numbers(std::span<const Tensor> numbers) {
  const auto owner = owner_.lock();
  return owner ? owner->all_gather_numbers(numbers) : std::vector<Tensor>(numbers.begin(), numbers.end());
}

}  // namespace lockstep
