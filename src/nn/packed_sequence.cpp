// Packing and padding each take one index_select of rows.
#include <lockstep/nn/packed_sequence.h>

#include <algorithm>
#include <numeric>

#include <lockstep/ops/index.h>
#include <lockstep/ops/join.h>
#include <lockstep/tensor/creation.h>

#include "core/text.h"

namespace lockstep::nn {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor selected(const Tensor& x, const Integers& places) {
  return index_select(x, 0,
                      from_host(places.data(), places.size(), kInt64, {std::int64_t(places.size())},
                                {.dtype = kInt64, .device = x.device()}));
}

// Appends a row of the padding value to x.
Tensor with_padding(const Tensor& x, double value) {
  Shape sizes = x.sizes();
  sizes[0] = 1;
  return cat({x, full(sizes, value, x.options())});
}

// Returns a packed sequence whose data are not set yet. An empty batch has one step of size 0.
PackedSequence in_order(const char* op, const Integers& lengths, bool enforce_sorted) {
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1)
      throw InvalidArgument(text("[", op, "] expected lengths of at least 1, got ", lengths[i], " of sequence ", i));
    if (enforce_sorted && i > 0 && lengths[i] > lengths[i - 1])
      throw InvalidArgument(text("[", op, "] expected lengths that do not grow, got ", lengths[i], " after ",
                                 lengths[i - 1], ": use enforce_sorted = false"));
  }
  PackedSequence packed;
  Integers order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  if (!enforce_sorted) {
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return lengths[std::size_t(a)] > lengths[std::size_t(b)]; });
    packed.sorted_indices = order;
    packed.unsorted_indices.resize(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) packed.unsorted_indices[std::size_t(order[i])] = std::int64_t(i);
  }
  std::size_t longer = lengths.size();
  for (std::int64_t step = 0; longer > 0; ++step) {
    while (longer > 0 && lengths[std::size_t(order[longer - 1])] <= step) --longer;
    if (longer > 0) packed.batch_sizes.push_back(std::int64_t(longer));
  }
  if (lengths.empty()) packed.batch_sizes.push_back(0);
  return packed;
}

// The batch index of the sequence at position `place` of the packed order (longest first).
std::int64_t sequence_at(const PackedSequence& packed, std::int64_t place) {
  return packed.sorted_indices.empty() ? place : packed.sorted_indices[std::size_t(place)];
}

// Calls visit(step, place) for each row, in order.
template <class Visit>
void for_each_row(const PackedSequence& packed, const Visit& visit) {
  for (std::size_t step = 0; step < packed.batch_sizes.size(); ++step)
    for (std::int64_t place = 0; place < packed.batch_sizes[step]; ++place) visit(std::int64_t(step), place);
}

Integers lengths_of(const char* op, std::span<const Tensor> sequences) {
  Integers lengths;
  for (const Tensor& x : sequences) {
    if (x.dim() < 1) throw ShapeError(text("[", op, "] expected sequences [length, ...], got a 0-dim one"));
    lengths.push_back(x.size(0));
  }
  return lengths;
}

Integers starts_of(const Integers& lengths) {
  Integers starts = {0};
  for (const std::int64_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

// Returns [steps, batch, ...], or [batch, steps, ...] if batch_first, whose element i (flattened) is row places[i] of
// `rows`, or the padding value if places[i] is the number of rows.
Tensor laid_out(const Tensor& rows, const Integers& places, std::int64_t steps, std::int64_t batch,
                const PadOptions& options) {
  Shape sizes = rows.sizes();
  sizes[0] = options.batch_first ? batch : steps;
  sizes.insert(1, options.batch_first ? steps : batch);
  return selected(with_padding(rows, options.padding_value), places).view(sizes);
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                    const PackOptions& options) {
  constexpr const char* kOp = "pack_padded_sequence";
  if (x.dim() < 2) throw ShapeError(text("[", kOp, "] expected x [steps, batch, ...], got ", x.sizes()));
  const std::int64_t steps = x.size(options.batch_first ? 1 : 0), batch = x.size(options.batch_first ? 0 : 1);
  if (batch != std::int64_t(lengths.size()))
    throw ShapeError(text("[", kOp, "] expected ", batch, " lengths for ", x.sizes(), ", got ", lengths.size()));
  PackedSequence packed = in_order(kOp, lengths, options.enforce_sorted);
  if (std::int64_t(packed.batch_sizes.size()) > steps)
    throw ShapeError(text("[", kOp, "] expected lengths of at most ", steps, ", got ", packed.batch_sizes.size()));
  Integers places;
  for_each_row(packed, [&](std::int64_t step, std::int64_t place) {
    const std::int64_t sequence = sequence_at(packed, place);
    places.push_back(options.batch_first ? sequence * steps + step : step * batch + sequence);
  });
  packed.data = selected(x.flatten(0, 1), places);
  return packed;
}

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& options) {
  if (lengths.dim() != 1 || is_floating(lengths.dtype()) || lengths.dtype() == kBool)
    throw ShapeError(
        text("[pack_padded_sequence] expected integer lengths [batch], got ", lengths.dtype(), ' ', lengths.sizes()));
  return pack_padded_sequence(x, lengths.to(kInt64).to_vector<std::int64_t>(), options);
}

PaddedSequence pad_packed_sequence(const PackedSequence& packed, const PadOptions& options) {
  constexpr const char* kOp = "pad_packed_sequence";
  if (packed.batch_sizes.empty()) throw InvalidArgument(text("[", kOp, "] expected at least one step, got none"));
  const auto longest = std::int64_t(packed.batch_sizes.size());
  const std::int64_t steps = options.total_length.value_or(longest), batch = packed.batch_sizes.front();
  if (steps < longest)
    throw InvalidArgument(text("[", kOp, "] expected a total_length of at least ", longest, ", got ", steps));
  PaddedSequence padded;
  padded.lengths.assign(std::size_t(batch), 0);
  std::int64_t row = 0;
  Integers places(std::size_t(steps * batch), packed.data.size(0));  // the index after the last row stands for padding
  for_each_row(packed, [&](std::int64_t step, std::int64_t place) {
    const std::int64_t sequence = sequence_at(packed, place);
    ++padded.lengths[std::size_t(sequence)];
    places[std::size_t(options.batch_first ? sequence * steps + step : step * batch + sequence)] = row++;
  });
  padded.output = laid_out(packed.data, places, steps, batch, options);
  return padded;
}

PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted) {
  if (sequences.empty()) throw InvalidArgument("[pack_sequence] expected at least one sequence, got none");
  const Integers lengths = lengths_of("pack_sequence", sequences), starts = starts_of(lengths);
  PackedSequence packed = in_order("pack_sequence", lengths, enforce_sorted);
  Integers places;
  for_each_row(packed, [&](std::int64_t step, std::int64_t place) {
    places.push_back(starts[std::size_t(sequence_at(packed, place))] + step);
  });
  packed.data = selected(cat(sequences), places);
  return packed;
}

Tensor pad_sequence(std::span<const Tensor> sequences, const PadOptions& options) {
  const Integers lengths = lengths_of("pad_sequence", sequences), starts = starts_of(lengths);
  if (lengths.empty()) throw InvalidArgument("[pad_sequence] expected at least one sequence, got none");
  const bool left = options.padding_side == "left";
  if (!left && options.padding_side != "right")
    throw InvalidArgument(
        text("[pad_sequence] expected padding_side \"left\" or \"right\", got \"", options.padding_side, "\""));
  const auto batch = std::int64_t(lengths.size());
  const std::int64_t steps = *std::max_element(lengths.begin(), lengths.end());
  Integers places(std::size_t(steps * batch), starts.back());
  for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
    const std::int64_t length = lengths[std::size_t(sequence)], first = left ? steps - length : 0;
    for (std::int64_t row = 0; row < length; ++row) {
      const std::int64_t step = first + row;
      places[std::size_t(options.batch_first ? sequence * steps + step : step * batch + sequence)] =
          starts[std::size_t(sequence)] + row;
    }
  }
  return laid_out(cat(sequences), places, steps, batch, options);
}

std::vector<Tensor> unpad_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths, bool batch_first) {
  constexpr const char* kOp = "unpad_sequence";
  if (x.dim() < 2) throw ShapeError(text("[", kOp, "] expected x [steps, batch, ...], got ", x.sizes()));
  const Tensor rows = batch_first ? x : x.transpose(0, 1);
  if (rows.size(0) != std::int64_t(lengths.size()))
    throw ShapeError(text("[", kOp, "] expected ", rows.size(0), " lengths for ", x.sizes(), ", got ", lengths.size()));
  for (const std::int64_t length : lengths)
    if (length < 0 || length > rows.size(1))
      throw ShapeError(text("[", kOp, "] expected lengths from 0 to ", rows.size(1), ", got ", length));
  std::vector<Tensor> sequences = unbind(rows);
  for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i] = sequences[i].narrow(0, 0, lengths[i]);
  return sequences;
}

std::vector<Tensor> unpack_sequence(const PackedSequence& packed) {
  const auto [output, lengths] = pad_packed_sequence(packed, {.batch_first = true});
  return unpad_sequence(output, lengths, true);
}

}  // namespace lockstep::nn
