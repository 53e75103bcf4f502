// The gradients of one bucket on one device, if each device keeps only its share of their sum (Shard::gradients;
// docs/sharding.md). The whole bucket is in memory from the first gradient of a backward to the reduce-scatter, which
// leaves the sum of a part in the share. The memory then serves the next buckets.
//
// Whole again, a bucket has its share's part, and zeros elsewhere: a sum of earlier backwards enters the next sum once.
// If it has no gradients, its values are indeterminate, because backward writes each gradient whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/runtime/stream.h>
#include <lockstep/tensor/tensor.h>

#include "core/ranked_mutex.h"
#include "tensor/transient_memory.h"

namespace lockstep {

struct Storage;

/// A device's memory for buckets that are whole: `kept` buffers of the size of the largest bucket, and more while more
/// are in use.
class BucketBuffers {
 public:
  struct Use {
    Stream stream;
    std::uint64_t step;  // the captured step in which the stream used it last; 0: none
  };
  struct Buffer {
    Tensor memory;          // bytes
    std::vector<Use> uses;  // by streams with work that may use it
  };

  BucketBuffers(Device owner, std::size_t kept) : device(owner), kept_(kept) {}
  ~BucketBuffers();
  BucketBuffers(const BucketBuffers&) = delete;
  BucketBuffers& operator=(const BucketBuffers&) = delete;
  /// Called before buckets of that size are used.
  void fit(std::size_t bytes);
  /// While `makes_more`, take() returns memory whose uses have ended, or new memory.
  void make_more(bool makes_more);
  /// Work on the present stream is ordered after that of the uses. Throws OutOfMemory.
  Buffer take();
  void give_back(Buffer buffer);

  const Device device;

 private:
  const std::size_t kept_;
  RankedMutex<LockRank::bucket_buffers> mutex_;
  std::size_t bytes_ = 0, made_ = 0;  // of a buffer; how many there are
  bool makes_more_ = false;
  std::vector<Buffer> free_;
};

class GradientMemory final : public TransientMemory {
 public:
  /// The flat array of a bucket of `elements`, on the device of the buffers. `rank` of `ranks` keeps the sum of part
  /// number `rank`.
  static Tensor make_flat(std::shared_ptr<BucketBuffers> buffers, std::int64_t elements, DType dtype, std::size_t rank,
                          std::size_t ranks);
  /// Null for a flat whose memory stays.
  static GradientMemory* of(const Tensor& flat) noexcept;

  /// The bucket has no gradients: what it holds when it is whole next is indeterminate, until end_backward().
  void begin_backward_without_gradients() noexcept { is_unused_ = !is_whole(); }
  void end_backward() noexcept { is_unused_ = false; }

  const Tensor& share() const noexcept { return share_; }  ///< [elements / ranks]
  /// The bucket was reduced to the share, or has no gradient left: work on `stream` is the last to use the whole.
  void release(const Stream& stream);
  bool is_whole() const noexcept { return buffer_.has_value(); }
  /// The memory in which it is whole; null if it is not.
  const Storage* buffer() const noexcept;
  /// True if that captured step has used a buffer in which it was whole before.
  bool was_whole_before(std::uint64_t step) const noexcept { return step == whole_before_; }

  std::byte* bring() override;
  void use_on(const StreamHandle& stream) override;
  void publish() override {}
  Tensor own_part(const TensorImpl& tensor) const override;

  GradientMemory(std::shared_ptr<BucketBuffers> buffers, Tensor share, std::size_t rank, std::size_t bytes)
      : buffers_(std::move(buffers)), share_(std::move(share)), rank_(rank), bytes_(bytes) {}
  ~GradientMemory() override;

 private:
  void fill_from_share(const BucketBuffers::Buffer& buffer, const Stream& stream) const;

  const std::shared_ptr<BucketBuffers> buffers_;
  const Tensor share_;
  const std::size_t rank_, bytes_;
  RankedMutex<LockRank::transient_memory> mutex_;
  std::optional<BucketBuffers::Buffer> buffer_;
  std::optional<cuda::Event> full_;
  bool is_unused_ = false;
  std::uint64_t full_in_ = 0;       // the captured step in which `full_` was recorded
  std::uint64_t whole_before_ = 0;  // the captured step that has used what was whole before it
};

}  // namespace lockstep
