// The gradients of a model on several devices before and after a captured step.
#include <algorithm>

#include "core/context.h"
#include "parallel/gradient_buckets_impl.h"
#include "tensor/host_state.h"
#include "tensor/replay_values.h"

namespace lockstep {
BucketedParameter::Gradient BucketedParameter::present() const {
  Gradient now = {state_, has_earlier_sum_, slots_, {}};
  for (std::size_t r = 0; r < slots_.size(); ++r) now.gradients.push_back(gradient(r));
  return now;
}

bool BucketedParameter::is_present(const Gradient& other) const noexcept {
  if (state_ != other.state || has_earlier_sum_ != other.has_earlier_sum || slots_.size() != other.slots.size())
    return false;
  for (std::size_t r = 0; r < slots_.size(); ++r)
    if (slots_[r].impl() != other.slots[r].impl() || gradient(r).impl() != other.gradients[r].impl()) return false;
  return true;
}

void BucketedParameter::restore(const Gradient& gradient) {
  state_ = gradient.state;
  has_earlier_sum_ = gradient.has_earlier_sum;
  for (std::size_t r = 0; r < slots_.size(); ++r) set_grad(r, gradient.gradients[r]);
}

class GradientBuckets::Impl::StepState final : public HostStatePart {
 public:
  explicit StepState(std::weak_ptr<Impl> owner) : owner_(std::move(owner)) {}

  bool is_gone() const override { return owner_.expired(); }
  void begin() override {
    if (const auto owner = owner_.lock()) found_ = State(*owner);
  }
  void end(const ReplayValues& step) override {
    const auto owner = owner_.lock();
    if (!owner) return;
    left_ = State(*owner);
    for_each_memory(*owner,
                    [&](const GradientMemory& memory) { needs_buffer_.push_back(memory.was_whole_before(step.id())); });
    for (const GradientBucket& bucket : owner->buckets) {
      std::vector<std::uint64_t>& since = since_lockstep_.emplace_back();
      for (std::size_t d = 0; d < bucket.flats.size(); ++d)
        since.push_back(bucket.flats[d].version() - bucket.versions[d]);
    }
  }
  const char* find_mismatch() override {
    const auto owner = owner_.lock();
    if (!owner || owner->parameters.empty()) return "the replicas of a model";
    if (*owner->summing != found_.sums) return "no_sync()";
    const std::scoped_lock lock(owner->mutex);
    return found_.is_present(*owner) && finds_buffers(*owner) ? nullptr : "the gradients of a model";
  }
  void restore_captured() override {
    const auto owner = owner_.lock();
    const std::scoped_lock lock(owner->mutex);
    for (std::size_t e = 0; e < left_.gradients.size(); ++e) owner->parameters[e]->restore(left_.gradients[e]);
    for (std::size_t b = 0; b < since_lockstep_.size(); ++b) {
      GradientBucket& bucket = owner->buckets[b];
      bucket.earlier = left_.earlier[b];
      for (std::size_t d = 0; d < bucket.flats.size(); ++d)
        if (GradientMemory* const memory = GradientMemory::of(bucket.flats[d]))
          memory->release(current_stream(owner->devices[d]));
      for (std::size_t d = 0; d < bucket.flats.size(); ++d)
        bucket.versions[d] = bucket.flats[d].version() - since_lockstep_[b][d];
    }
  }

 private:
  struct State {
    std::vector<BucketedParameter::Gradient> gradients;
    std::vector<bool> drifted;                 // by bucket
    std::vector<std::vector<Tensor>> earlier;  // by bucket and device
    std::vector<const Storage*> whole;         // by bucket and device: the buffers of those that are whole
    bool sums = false;

    State() = default;
    explicit State(Impl& owner) : sums(*owner.summing) {
      const std::scoped_lock lock(owner.mutex);
      for (const auto& parameter : owner.parameters) gradients.push_back(parameter->present());
      for (const GradientBucket& bucket : owner.buckets) {
        drifted.push_back(bucket.has_drifted());
        earlier.push_back(bucket.earlier);
      }
      whole = whole_in(owner);
    }
    bool is_present(const Impl& owner) const {
      const auto is_as_was = [](const auto& parameter, const auto& was) { return parameter->is_present(was); };
      const auto has_drifted_as = [](const GradientBucket& bucket, bool was) { return bucket.has_drifted() == was; };
      const auto are_same = [](const Tensor& tensor, const Tensor& was) { return tensor.impl() == was.impl(); };
      const auto keeps = [&](const GradientBucket& bucket, const std::vector<Tensor>& was) {
        return std::ranges::equal(bucket.earlier, was, are_same);
      };
      return std::ranges::equal(owner.parameters, gradients, is_as_was) &&
             std::ranges::equal(owner.buckets, drifted, has_drifted_as) &&
             std::ranges::equal(owner.buckets, earlier, keeps);
    }
    static std::vector<const Storage*> whole_in(const Impl& owner) {
      std::vector<const Storage*> all;
      for_each_memory(owner, [&](const GradientMemory& memory) { all.push_back(memory.buffer()); });
      return all;
    }
  };

  static void for_each_memory(const Impl& owner, const auto& visit) {
    for (const GradientBucket& bucket : owner.buckets)
      for (const Tensor& flat : bucket.flats)
        if (const GradientMemory* const memory = GradientMemory::of(flat)) visit(*memory);
  }
  // Buckets that were whole must be whole again, in the same buffer if the step has used what was there. A bucket that
  // the step has left whole lies in memory that may serve other buckets since.
  bool finds_buffers(const Impl& owner) const {
    const std::vector<const Storage*> now = State::whole_in(owner);
    bool all = now.size() == found_.whole.size();
    for (std::size_t i = 0; all && i < now.size(); ++i)
      all = !left_.whole[i] && (needs_buffer_[i] ? now[i] == found_.whole[i] : !now[i] == !found_.whole[i]);
    return all;
  }

  const std::weak_ptr<Impl> owner_;
  State found_, left_;
  std::vector<bool> needs_buffer_;
  std::vector<std::vector<std::uint64_t>> since_lockstep_;  // changes of each flat since lockstep, by bucket and device
};

void GradientBuckets::Impl::use_in_step() {
  if (HostState* const parts = context().host_state) parts->add<StepState>(this, weak_from_this());
  if (units) units->use_in_step();
}

}  // namespace lockstep
