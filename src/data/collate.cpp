#include <lockstep/data/collate.h>

#include <limits>

#include <lockstep/ops/join.h>

#include "core/text.h"

namespace lockstep::data::detail {

Tensor stack_samples(std::span<const Tensor> samples, SampleIndices indices) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!samples[i].defined())
      throw InvalidArgument(text("[collate] expected a tensor in every sample, got none in sample ", indices[i]));
  const auto difference = [&](std::size_t i, const char* what, const auto& first, const auto& other) {
    return text("[collate] expected samples of one ", what, ", got ", first, " in sample ", indices[0], " and ", other,
                " in sample ", indices[i]);
  };
  const Tensor& first = samples[0];
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const Tensor& other = samples[i];
    if (!(other.sizes() == first.sizes())) throw ShapeError(difference(i, "shape", first.sizes(), other.sizes()));
    if (other.dtype() != first.dtype()) throw DTypeError(difference(i, "dtype", first.dtype(), other.dtype()));
    if (other.device() != first.device()) throw DeviceMismatch(difference(i, "device", first.device(), other.device()));
  }
  return stack(samples);
}

void throw_unequal_lengths(std::size_t a, std::int64_t index_a, std::size_t b, std::int64_t index_b) {
  throw ShapeError(text("[collate] expected lists of the same length, got ", a, " elements in sample ", index_a,
                        " and ", b, " in sample ", index_b));
}

void throw_missing_key(std::string_view key, std::int64_t with, std::int64_t without) {
  throw InvalidArgument(text("[collate] expected the same keys in every sample, got \"", key, "\" in sample ", with,
                             " and not in sample ", without));
}

void throw_only_some_set(std::int64_t with, std::int64_t without) {
  throw InvalidArgument(text("[collate] expected a value in every sample or in none, got one in sample ", with,
                             " and none in sample ", without));
}

void throw_alternatives_differ(std::size_t a, std::int64_t index_a, std::size_t b, std::int64_t index_b) {
  throw InvalidArgument(text("[collate] expected the same alternative of a variant in every sample, got alternative ",
                             a, " in sample ", index_a, " and ", b, " in sample ", index_b));
}

void throw_too_large(std::uint64_t value, std::int64_t index) {
  throw InvalidArgument(text("[collate] expected integers up to ", std::numeric_limits<std::int64_t>::max(), ", got ",
                             value, " in sample ", index));
}

std::string part_name(std::size_t element) { return text("in element ", element); }

std::string part_name(std::string_view key) { return text("in \"", key, "\""); }

}  // namespace lockstep::data::detail
