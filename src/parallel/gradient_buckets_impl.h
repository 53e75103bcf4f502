// The state of GradientBuckets. gradient_sums.cpp sums while a backward runs and what is left to be summed afterwards,
// and gathers; gradient_buckets.cpp lays buckets out, keeps parameters and gradients in lockstep between backwards, and
// lets them go.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_buckets.h>
#include <lockstep/runtime/communicator.h>
#include <lockstep/runtime/stream.h>

#include "autograd/node.h"
#include "parallel/bucket_layout.h"

namespace lockstep {

struct GradientBucket : BucketMemory {
  // Of the present backward, by device: gradients still to come, the stream on which the last one came, and where in
  // the device's work that was.
  std::vector<std::size_t> expected;
  std::vector<std::optional<Stream>> arrived_on;
  std::vector<std::optional<Event>> complete;
  std::size_t devices_left = 0;
  bool launched = false, reduced = false;

  std::vector<std::uint64_t> versions;  // of the flats, by device, when they were last in lockstep

  void are_in_lockstep() {
    versions.clear();
    for (const Tensor& flat : flats) versions.push_back(flat.version());
  }
  // Whether they have not changed equally often since.
  bool has_drifted() const {
    const auto changes = [&](std::size_t d) { return flats[d].version() - versions[d]; };
    for (std::size_t d = 1; d < flats.size(); ++d)
      if (changes(d) != changes(0)) return true;
    return false;
  }
};

struct GradientBuckets::Impl final : autograd::GradientSink {
  std::vector<Device> devices;
  BucketOptions options;
  std::vector<std::vector<Tensor>> parameters;  // each by device
  std::vector<GradientBucket> buckets;
  std::vector<std::size_t> bucket_of;  // by parameter
  std::vector<Stream> streams;         // of the communicator, by device
  std::optional<Communicator> communicator;
  Summing summing;

  std::mutex mutex;  // guards the following, and what buckets keep of the present backward
  bool running = false;
  bool summing_now = false;
  std::vector<bool> arrives;       // by leaf: this backward brings its gradient
  std::vector<std::size_t> order;  // in which backward comes to the primary's leaves
  bool observed = false;           // buckets follow that order, or could not

  // A leaf is a parameter on a device; an entry is the number of a parameter.
  std::size_t count() const noexcept { return devices.size(); }
  std::size_t leaf(std::size_t entry, std::size_t device) const noexcept { return entry * count() + device; }
  autograd::Meta& meta_at(std::size_t e, std::size_t d) const { return *autograd::meta_of(parameters[e][d]); }
  autograd::Meta& primary(std::size_t e) const { return meta_at(e, 0); }
  bool has_gradient(std::size_t e) const;  // on any device
  bool is_scattered(std::size_t e) const;  // each device has the sum of its share only

  // What autograd calls. All take the lock.
  void begin(std::span<const std::size_t> leaves) override;
  void ready(std::size_t l) override;
  void absent(std::size_t l) override;
  void end() override;
  bool is_running() override;
  std::span<const Device> devices_used() const noexcept override { return devices; }
  void settle() override;
  void give_up() override;
  void complete_gradient(std::size_t l) override;
  void gather_leaves(std::span<const std::size_t> leaves) override;

  // What follows wants the lock to be held, but where nobody else knows of these buckets.

  // The sums.
  void take_order(std::span<const std::size_t> leaves);
  void expect(std::span<const std::size_t> leaves);
  void count_down(GradientBucket& bucket, std::size_t d);
  void device_complete(GradientBucket& bucket, std::size_t d);
  void launch(GradientBucket& bucket);
  void reduce(const GradientBucket& bucket, std::vector<RankBuffers>& ranks);
  void take_sums();
  void take_slot(autograd::Meta& meta, std::size_t d, bool scattered) const;
  void sum_now();
  void gather_gradients(std::span<const std::size_t> which);

  // Between them.
  void lay_out(std::span<const std::size_t> in_order);
  void observe();
  bool are_divided_as(std::vector<std::vector<std::size_t>> others) const;
  void bring_gradients();
  void bring_values();
  bool fits_its_slot(std::size_t e, std::size_t d) const;
  bool fit_their_slots() const;
  void gather_all_gradients();
  void let_go() noexcept;
};

}  // namespace lockstep
