// LoaderIterator: the position of a loop over a DataLoader.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include <lockstep/core/export.h>
#include <lockstep/core/moved_from.h>
#include <lockstep/data/epoch_loop.h>

namespace lockstep::data {

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_at_end();
}

/// Refers to the current batch, which the loop may change. The destructor cancels the batches that are being
/// prefetched, and waits. An iterator that threw is at its end.
template <class Batch>
class LoaderIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  explicit LoaderIterator(std::unique_ptr<EpochLoop<Batch>> loop) : loop_(std::move(loop)) {}

  /// Throws InvalidArgument at the end.
  value_type& operator*() const {
    if (!loop().batch()) detail::throw_at_end();
    return *loop().batch();
  }
  value_type* operator->() const { return &**this; }
  LoaderIterator& operator++() {
    loop().advance();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const LoaderIterator& it, std::default_sentinel_t) { return !it.loop().batch(); }

 private:
  EpochLoop<Batch>& loop() const { return lockstep::detail::checked_deref(loop_, "DataLoader", "an iterator"); }

  std::unique_ptr<EpochLoop<Batch>> loop_;
};

}  // namespace lockstep::data
