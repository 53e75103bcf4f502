// Sequences of different lengths as one batch: padded to one length, or packed without padding. All differentiable.
// Lengths and orders are the host's: nothing here waits for a device.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/tensor/tensor.h>

namespace lockstep::nn {

/// The rows of all sequences without padding: the first row of each, then the second of each that has one, and so on,
/// longest sequence first. (What DataParallel would divide by rows: give it padded sequences, and pack in forward().)
struct PackedSequence {
  Tensor data;                                 ///< [the sum of all lengths, ...].
  std::vector<std::int64_t> batch_sizes;       ///< How many sequences have a first row, a second row, and so on.
  std::vector<std::int64_t> sorted_indices;    ///< Which sequence comes first; empty where the order is the batch's.
  std::vector<std::int64_t> unsorted_indices;  ///< Where in that order each sequence is; empty likewise.
};

struct PackOptions {
  bool batch_first = false;    ///< x: [batch, steps, ...], else [steps, batch, ...].
  bool enforce_sorted = true;  ///< Lengths must not grow, else InvalidArgument; otherwise they are sorted.
};

/// A batch of no sequences becomes one step of none. Throws InvalidArgument for lengths below 1, and ShapeError unless
/// there is one for each sequence and x has as many steps.
LOCKSTEP_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                                 const PackOptions& options = {});

/// The same for lengths in a tensor of integers [batch], for which the host waits where they are on a GPU.
LOCKSTEP_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                                 const PackOptions& options = {});

struct PadOptions {
  bool batch_first = false;
  double padding_value = 0;                       ///< What stands behind the end of a shorter one.
  std::optional<std::int64_t> total_length = {};  ///< Of pad_packed_sequence: steps of the result, else the longest's.
  std::string_view padding_side = "right";        ///< Of pad_sequence: "right", or "left", before the first row.
};

/// Sequences side by side.
struct PaddedSequence {
  Tensor output;                      ///< [steps, batch, ...], or [batch, steps, ...].
  std::vector<std::int64_t> lengths;  ///< Of each sequence.
};

/// Throws InvalidArgument for a total_length below the longest sequence's.
LOCKSTEP_API PaddedSequence pad_packed_sequence(const PackedSequence& packed, const PadOptions& options = {});

/// Tensors [length, ...] that agree but for the length. Throws InvalidArgument for none, or an empty one.
LOCKSTEP_API PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted = true);
LOCKSTEP_API Tensor pad_sequence(std::span<const Tensor> sequences, const PadOptions& options = {});

/// The sequences again, without padding: views. x: [steps, batch, ...], or [batch, steps, ...] if batch_first. Throws
/// ShapeError unless there is one length for each sequence, and none above `steps`.
LOCKSTEP_API std::vector<Tensor> unpad_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                                bool batch_first = false);
LOCKSTEP_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed);  ///< Of packed sequences.

/// The same for a list.
inline PackedSequence pack_sequence(std::initializer_list<Tensor> sequences, bool enforce_sorted = true) {
  return pack_sequence(std::span(sequences.begin(), sequences.size()), enforce_sorted);
}
/// The same for a list.
inline Tensor pad_sequence(std::initializer_list<Tensor> sequences, const PadOptions& options = {}) {
  return pad_sequence(std::span(sequences.begin(), sequences.size()), options);
}

/// The same with PyTorch's arguments in their order.
template <class Sequences>
requires std::constructible_from < std::span<const Tensor>,
const Sequences& > Tensor pad_sequence(const Sequences& sequences, bool batch_first, double padding_value = 0) {
  return pad_sequence(std::span<const Tensor>(sequences),
                      PadOptions{.batch_first = batch_first, .padding_value = padding_value});
}
inline Tensor pad_sequence(std::initializer_list<Tensor> sequences, bool batch_first, double padding_value = 0) {
  return pad_sequence(std::span(sequences.begin(), sequences.size()),
                      PadOptions{.batch_first = batch_first, .padding_value = padding_value});
}
inline PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths, bool batch_first,
                                           bool enforce_sorted = true) {
  return pack_padded_sequence(x, lengths, PackOptions{.batch_first = batch_first, .enforce_sorted = enforce_sorted});
}
inline PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, bool batch_first,
                                           bool enforce_sorted = true) {
  return pack_padded_sequence(x, lengths, PackOptions{.batch_first = batch_first, .enforce_sorted = enforce_sorted});
}
inline PaddedSequence pad_packed_sequence(const PackedSequence& packed, bool batch_first, double padding_value = 0) {
  return pad_packed_sequence(packed, PadOptions{.batch_first = batch_first, .padding_value = padding_value});
}

/// PyTorch's names.
namespace utils::rnn {
using nn::pack_padded_sequence;
using nn::pack_sequence;
using nn::PackedSequence;
using nn::pad_packed_sequence;
using nn::pad_sequence;
using nn::unpack_sequence;
using nn::unpad_sequence;
}  // namespace utils::rnn

}  // namespace lockstep::nn
