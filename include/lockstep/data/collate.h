// Collation: how the samples of a batch become the batch.
//
//   Tensor                 stacked along a new dimension 0
//   number, bool           Tensor [batch], with the dtype that tensor({...}) gives; integers that int64 can hold
//   std::tuple, pair       each element collated
//   std::vector, array     each element collated; all of one length
//   std::map<string, T>    each value collated; all with the same keys
//   std::string            std::vector<std::string>
//   struct with members()  the same struct, each member collated, if it is default constructible and each member's
//                          batch has the member's type, as that of a Tensor has
//   anything else          std::vector of the samples
//
// For another rule specialize Collator, or give the loader a function. Safe from any thread.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/core/export.h>
#include <lockstep/core/members.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/tensor.h>

namespace lockstep::data {

/// The indices in the dataset of the samples that are collated: errors name them.
using SampleIndices = std::span<const std::int64_t>;

/// Makes a batch of one or more samples of type T, which are its to move from.
template <class T>
struct Collator {
  static std::vector<T> collate(std::vector<T> samples, SampleIndices) { return samples; }
};

/// The type of a batch of samples of type T.
template <class T>
using Collated = decltype(Collator<T>::collate(std::declval<std::vector<T>>(), SampleIndices()));

/// What a DataLoader does unless told otherwise. Throws ShapeError, DTypeError, DeviceMismatch or InvalidArgument
/// with the indices of the samples that do not fit each other or the batch, and where in the sample that is.
struct DefaultCollate {
  template <class T>
  Collated<T> operator()(std::vector<T> samples, SampleIndices indices) const {
    return Collator<T>::collate(std::move(samples), indices);
  }
};

namespace detail {

LOCKSTEP_API Tensor stack_samples(std::span<const Tensor> samples, SampleIndices indices);
[[noreturn]] LOCKSTEP_API void throw_unequal_lengths(std::size_t a, std::int64_t index_a, std::size_t b,
                                                     std::int64_t index_b);
[[noreturn]] LOCKSTEP_API void throw_missing_key(std::string_view key, std::int64_t with, std::int64_t without);
[[noreturn]] LOCKSTEP_API void throw_too_large(std::uint64_t value, std::int64_t index);
LOCKSTEP_API std::string part_name(std::size_t element);
LOCKSTEP_API std::string part_name(std::string_view key);

/// Collates one part of the samples: take(sample) moves it out. `part` names it in errors.
template <class Part, class T, class Take, class Name>
Collated<Part> collate_part(std::vector<T>& samples, SampleIndices indices, const Name& part, const Take& take) {
  std::vector<Part> parts;
  parts.reserve(samples.size());
  for (T& sample : samples) parts.push_back(take(sample));
  try {
    return Collator<Part>::collate(std::move(parts), indices);
  } catch (Error& error) {
    error.add_context(part_name(part));
    throw;
  }
}

template <class T>
void check_lengths(const std::vector<T>& samples, SampleIndices indices) {
  for (std::size_t i = 1; i < samples.size(); ++i)
    if (samples[i].size() != samples[0].size())
      throw_unequal_lengths(samples[0].size(), indices[0], samples[i].size(), indices[i]);
}

template <class T>
void check_fits_int64(const std::vector<T>& samples, SampleIndices indices) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!std::in_range<std::int64_t>(samples[i])) throw_too_large(samples[i], indices[i]);
}

template <class Map>
void check_keys(const Map& all, std::int64_t index_all, const Map& tested, std::int64_t index_tested) {
  for (const auto& [key, value] : all)
    if (!tested.contains(key)) throw_missing_key(key, index_all, index_tested);
}

/// `Batch` is a tuple or a pair, whose I-th element is the batch of the I-th parts.
template <class Batch, class Tuple, std::size_t... I>
Batch collate_tuple(std::vector<Tuple> samples, SampleIndices indices, std::index_sequence<I...>) {
  return Batch{collate_part<std::remove_cvref_t<std::tuple_element_t<I, Tuple>>>(
      samples, indices, I, [](Tuple& sample) { return std::get<I>(std::move(sample)); })...};
}

template <class T, std::size_t... I>
T collate_members(std::vector<T> samples, SampleIndices indices, std::index_sequence<I...>) {
  T batch;
  const auto parts = batch.members();
  const auto collate_member = [&]<class Part>(auto position, const Named<Part>& part) {
    part.value = collate_part<Part>(samples, indices, part.name,
                                    [&](T& sample) { return std::move(std::get<position()>(sample.members()).value); });
  };
  (collate_member(std::integral_constant<std::size_t, I>(), std::get<I>(parts)), ...);
  return batch;
}

template <class Members>
inline constexpr bool kKeepTypes = false;
template <class... Members>
inline constexpr bool kKeepTypes<std::tuple<Named<Members>...>> = (std::same_as<Collated<Members>, Members> && ...);

/// A struct whose batch can be the same struct.
template <class T>
concept CollatesByMembers =
    HasMembers<T> && std::default_initializable<T> && kKeepTypes<decltype(std::declval<T&>().members())>;

}  // namespace detail

template <>
struct Collator<Tensor> {
  static Tensor collate(const std::vector<Tensor>& samples, SampleIndices indices) {
    return detail::stack_samples(samples, indices);
  }
};

template <class T>
requires(std::is_arithmetic_v<T> && !std::same_as<T, long double>) struct Collator<T> {
  static Tensor collate(const std::vector<T>& samples, [[maybe_unused]] SampleIndices indices) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::uint64_t))
      detail::check_fits_int64(samples, indices);
    return tensor(samples);
  }
};

template <class... Parts>
struct Collator<std::tuple<Parts...>> {
  using Batch = std::tuple<Collated<std::remove_cvref_t<Parts>>...>;
  static Batch collate(std::vector<std::tuple<Parts...>> samples, SampleIndices indices) {
    return detail::collate_tuple<Batch>(std::move(samples), indices, std::index_sequence_for<Parts...>());
  }
};

template <class First, class Second>
struct Collator<std::pair<First, Second>> {
  using Batch = std::pair<Collated<std::remove_cvref_t<First>>, Collated<std::remove_cvref_t<Second>>>;
  static Batch collate(std::vector<std::pair<First, Second>> samples, SampleIndices indices) {
    return detail::collate_tuple<Batch>(std::move(samples), indices, std::make_index_sequence<2>());
  }
};

template <class T, std::size_t N>
struct Collator<std::array<T, N>> {
  static std::array<Collated<T>, N> collate(std::vector<std::array<T, N>> samples, SampleIndices indices) {
    std::array<Collated<T>, N> batch;
    for (std::size_t i = 0; i < N; ++i)
      batch[i] = detail::collate_part<T>(samples, indices, i, [i](auto& sample) { return std::move(sample[i]); });
    return batch;
  }
};

template <class T>
struct Collator<std::vector<T>> {
  static std::vector<Collated<T>> collate(std::vector<std::vector<T>> samples, SampleIndices indices) {
    detail::check_lengths(samples, indices);
    std::vector<Collated<T>> batch;
    for (std::size_t i = 0; i < samples[0].size(); ++i)
      batch.push_back(
          detail::collate_part<T>(samples, indices, i, [i](auto& sample) { return T(std::move(sample[i])); }));
    return batch;
  }
};

template <class T>
struct Collator<std::map<std::string, T>> {
  using Sample = std::map<std::string, T>;
  static std::map<std::string, Collated<T>> collate(std::vector<Sample> samples, SampleIndices indices) {
    for (std::size_t i = 1; i < samples.size(); ++i) {
      detail::check_keys(samples[0], indices[0], samples[i], indices[i]);
      detail::check_keys(samples[i], indices[i], samples[0], indices[0]);
    }
    std::map<std::string, Collated<T>> batch;
    for (const auto& entry : samples[0]) {
      const std::string& key = entry.first;
      batch.emplace(key, detail::collate_part<T>(samples, indices, std::string_view(key),
                                                 [&](Sample& sample) { return std::move(sample.find(key)->second); }));
    }
    return batch;
  }
};

template <detail::CollatesByMembers T>
struct Collator<T> {
  static T collate(std::vector<T> samples, SampleIndices indices) {
    constexpr auto kCount = std::tuple_size_v<decltype(std::declval<T&>().members())>;
    return detail::collate_members(std::move(samples), indices, std::make_index_sequence<kCount>());
  }
};

}  // namespace lockstep::data
