// Sequences of different lengths as one batch: padded to one length, or packed without padding. All functions are
// differentiable. Lengths and orders are on the host, so these functions do not wait for a device, except for lengths
// in a tensor on a GPU.
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

/// The rows of all sequences without padding, longest sequence first: the first row of each sequence, then the second
/// row of each that has one, and so on. (DataParallel would split the rows in the wrong places, so pass it padded
/// sequences, and pack them in forward().)
struct PackedSequence {
  Tensor data;                                 ///< [the sum of all lengths, ...].
  std::vector<std::int64_t> batch_sizes;       ///< batch_sizes[i]: number of sequences of more than i rows.
  std::vector<std::int64_t> sorted_indices;    ///< The batch index of each packed sequence; empty if not sorted.
  std::vector<std::int64_t> unsorted_indices;  ///< The inverse permutation; empty if not sorted.
};

struct PackOptions {
  bool batch_first = false;    ///< True: x is [batch, steps, ...]; false: [steps, batch, ...].
  bool enforce_sorted = true;  ///< True: throws InvalidArgument if lengths increase. False: sorts the sequences.
};

/// Packs the sequences of x without their padding. An empty batch becomes one step without rows. Throws InvalidArgument
/// for lengths below 1, and ShapeError unless there is one length for each sequence, and none is above the number of
/// steps of x.
LOCKSTEP_API PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                                 const PackOptions& options = {});

/// Like the function above, for lengths in an integer tensor [batch]. If they are on a GPU, the host waits for them.
LOCKSTEP_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                                 const PackOptions& options = {});

struct PadOptions {
  bool batch_first = false;
  double padding_value = 0;                       ///< The padding after a shorter sequence.
  std::optional<std::int64_t> total_length = {};  ///< For pad_packed_sequence: steps of the result; longest by default.
  std::string_view padding_side = "right";        ///< For pad_sequence: "right" (after the last row) or "left".
};

/// Sequences padded to one length.
struct PaddedSequence {
  Tensor output;                      ///< [steps, batch, ...], or [batch, steps, ...].
  std::vector<std::int64_t> lengths;  ///< Length of each sequence.
};

/// Pads packed sequences to one length. Throws InvalidArgument for a total_length below the longest sequence's length.
LOCKSTEP_API PaddedSequence pad_packed_sequence(const PackedSequence& packed, const PadOptions& options = {});

/// Packs or pads sequences [length, ...], whose other sizes are equal. Throws InvalidArgument for no sequence or an
/// empty one.
LOCKSTEP_API PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted = true);
LOCKSTEP_API Tensor pad_sequence(std::span<const Tensor> sequences, const PadOptions& options = {});

/// Returns the sequences without padding, as views. x: [steps, batch, ...], or [batch, steps, ...] if batch_first.
/// Throws ShapeError unless there is one length for each sequence, and none above `steps`.
LOCKSTEP_API std::vector<Tensor> unpad_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                                bool batch_first = false);
LOCKSTEP_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed);  ///< Returns the sequences.

/// pack_sequence() for an initializer list.
inline PackedSequence pack_sequence(std::initializer_list<Tensor> sequences, bool enforce_sorted = true) {
  return pack_sequence(std::span(sequences.begin(), sequences.size()), enforce_sorted);
}
/// pad_sequence() for an initializer list.
inline Tensor pad_sequence(std::initializer_list<Tensor> sequences, const PadOptions& options = {}) {
  return pad_sequence(std::span(sequences.begin(), sequences.size()), options);
}

/// pad_sequence() with PyTorch's positional arguments.
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
