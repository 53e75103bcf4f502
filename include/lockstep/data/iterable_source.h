// IterableSource: makes the batches of one epoch of a dataset without a size, on any thread. One thread at a time reads
// samples, in order; several threads collate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/core/export.h>
#include <lockstep/data/batch_source.h>
#include <lockstep/data/iterable_dataset.h>

namespace lockstep::data {

/// Makes threads take turns to read samples, in the order of the batches. Safe from any thread.
class LOCKSTEP_API ReadSequencer {
 public:
  explicit ReadSequencer(std::int64_t first_batch);
  ~ReadSequencer();
  ReadSequencer(const ReadSequencer&) = delete;
  ReadSequencer& operator=(const ReadSequencer&) = delete;

  /// Waits until all earlier batches are read. Returns false if a stop is requested or no sample is left.
  bool wait(std::int64_t batch, const std::stop_token& stop);
  /// Reports that `rows` samples were read for the batch. `ended`: no sample is left.
  void done(std::int64_t batch, std::int64_t rows, bool ended);
  /// Rows of a batch that was read.
  std::int64_t rows_in(std::int64_t batch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Batches of a dataset without a size.
template <IterableDataset D, class Collate>
class IterableSource {
 public:
  using Sample = typename SampleReader<D>::Sample;

  /// `lease`: held while a thread may read the dataset, so that the loader can refuse a second loop until then.
  IterableSource(std::shared_ptr<D> dataset, std::shared_ptr<const Collate> collate, std::int64_t first_batch,
                 bool drop_last, std::shared_ptr<void> lease)
      : collate_(std::move(collate)),
        drop_last_(drop_last),
        lease_(std::move(lease)),
        reader_(std::move(dataset)),
        sequencer_(first_batch) {}

  /// Returns nullopt if a stop was requested, and after the end.
  auto make(const EpochPlan& plan, std::int64_t batch, const MakeContext& context) const {
    std::vector<Sample> samples;
    using Batch = decltype(detail::collated(*collate_, samples, SampleIndices()));
    if (!sequencer_.wait(batch, context.stop) || !read(plan, batch, context, samples)) return std::optional<Batch>();
    context.reads(-1);
    const RowRange mine = plan.share().rows(std::int64_t(samples.size()));
    const RowRange made = mine.count > 0 ? mine : RowRange{.first = 0, .count = 1};
    std::vector<std::int64_t> numbers(std::size_t(made.count));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = batch * plan.batch_size() + made.first + std::int64_t(i);
    samples.erase(samples.begin() + made.first + made.count, samples.end());
    samples.erase(samples.begin(), samples.begin() + made.first);
    return detail::make_batch(plan, batch, mine.count == 0,
                              [&] { return detail::collated(*collate_, std::move(samples), SampleIndices(numbers)); });
  }

  /// Rows of a batch that was made, over all processes.
  std::int64_t rows_in(std::int64_t batch) const { return sequencer_.rows_in(batch); }

 private:
  // Reads the samples of a batch. Returns false if a stop was requested, or if too few are left to make a batch.
  bool read(const EpochPlan& plan, std::int64_t batch, const MakeContext& context, std::vector<Sample>& samples) const {
    const std::int64_t first = batch * plan.batch_size();
    bool ended = true;  // stays true unless the whole batch is read
    struct Done {
      ReadSequencer& sequencer;
      std::int64_t batch;
      const std::vector<Sample>& samples;
      const bool& ended;
      ~Done() { sequencer.done(batch, std::int64_t(samples.size()), ended); }
    } const done{sequencer_, batch, samples, ended};
    for (; number_ < first + plan.batch_size(); ++number_) {
      if (context.stop.stop_requested()) return false;
      std::optional<Sample> sample =
          detail::read_sample(number_, plan.numbered_generator(number_), context, [this] { return reader_.next(); });
      if (!sample) return !samples.empty() && !drop_last_;
      // A loop that continues a loaded state drops the samples of earlier batches.
      if (number_ >= first) samples.push_back(*std::move(sample));
    }
    ended = false;
    return true;
  }

  const std::shared_ptr<const Collate> collate_;
  const bool drop_last_;
  const std::shared_ptr<void> lease_;
  // Used only by the thread whose turn it is to read:
  mutable SampleReader<D> reader_;
  mutable std::int64_t number_ = 0;
  mutable ReadSequencer sequencer_;
};

}  // namespace lockstep::data
