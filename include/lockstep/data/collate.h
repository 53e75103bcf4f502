// Collation: how the samples of a batch become the batch.
//
//   Tensor                 stacked along a new dimension 0
//   number, bool           Tensor [batch], with the dtype that tensor({...}) gives; integers that int64 can hold
//   std::tuple, pair       each element collated
//   std::vector, deque,    each element collated; all of one length
//   list, array
//   std::map,              each value collated; all with the same keys
//   unordered_map
//   std::optional          collated; set in all samples or in none
//   std::variant           collated; the same alternative in all samples
//   std::string            std::vector<std::string>
//   struct with members()  the same struct, each member collated, if it is default constructible and each member's
//                          batch has the member's type: true for a Tensor, false for a number
//   anything else          std::vector of the samples; does not compile if T may hide tensors (kHidesNoTensors)
//
// For another rule, specialize Collator or give the loader a function. Safe from any thread.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/core/error.h>
#include <lockstep/core/export.h>
#include <lockstep/core/structure.h>
#include <lockstep/tensor/creation.h>
#include <lockstep/tensor/tensor.h>
#include <lockstep/tensor/tensors_in.h>

namespace lockstep::data {

/// The dataset indices of the collated samples, for error messages.
using SampleIndices = std::span<const std::int64_t>;

/// Makes a batch of one or more samples of type T, which it may move from.
template <class T>
struct Collator {
  /// Returns the samples themselves, in order.
  static std::vector<T> collate(std::vector<T> samples, SampleIndices) {
    require_shown_tensors<T>();
    return samples;
  }
};

/// The type of a batch of samples of type T.
template <class T>
using Collated = decltype(Collator<T>::collate(std::declval<std::vector<T>>(), SampleIndices()));

/// A DataLoader's default collation. Throws ShapeError, DTypeError, DeviceMismatch or InvalidArgument if samples do not
/// fit each other or the batch, with their indices and the place in the sample.
struct DefaultCollate {
  /// Collates with Collator<T>.
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
[[noreturn]] LOCKSTEP_API void throw_only_some_set(std::int64_t with, std::int64_t without);
[[noreturn]] LOCKSTEP_API void throw_alternatives_differ(std::size_t a, std::int64_t index_a, std::size_t b,
                                                         std::int64_t index_b);
[[noreturn]] LOCKSTEP_API void throw_too_large(std::uint64_t value, std::int64_t index);
LOCKSTEP_API std::string part_name(std::size_t element);
LOCKSTEP_API std::string part_name(std::string_view key);

/// Collates one part of the samples. take(sample) moves this part out of a sample.
template <class Part, class T, class Take>
Collated<Part> collate_part(std::vector<T>& samples, SampleIndices indices, const Take& take) {
  std::vector<Part> parts;
  parts.reserve(samples.size());
  for (T& sample : samples) parts.push_back(take(sample));
  return Collator<Part>::collate(std::move(parts), indices);
}

/// Overload that adds `part`, the name of the part, to the messages of exceptions.
template <class Part, class T, class Name, class Take>
Collated<Part> collate_part(std::vector<T>& samples, SampleIndices indices, const Name& part, const Take& take) {
  try {
    return collate_part<Part>(samples, indices, take);
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
    if (!tested.contains(key))
      with_key_text(key, [&](std::string_view text) { throw_missing_key(text, index_all, index_tested); });
}

template <class T, class... Part>
auto with_batches(PartTypes<Part...>) ->
    typename lockstep::detail::MadeOf<T>::template With<Collated<std::remove_cvref_t<Part>>...>;
/// A structure like T whose parts are batches of T's parts.
template <class T>
using BatchOf = decltype(with_batches<T>(PartsOf<T>()));

/// Collates tuples or pairs into a `Batch`, whose I-th element is the batch of the samples' I-th elements.
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
    part.value = collate_part<Part>(samples, indices, part.name, [&](T& sample) {
      return std::move(sample.members().template get<position()>().value);
    });
  };
  (collate_member(std::integral_constant<std::size_t, I>(), parts.template get<I>()), ...);
  return batch;
}

template <class Members>
inline constexpr bool kKeepTypes = false;
template <class... T>
inline constexpr bool kKeepTypes<lockstep::NamedMembers<T...>> = (std::same_as<Collated<T>, T> && ...);

/// A struct whose batch can be a value of the same struct.
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

template <class T>
requires(kStructure<T> == Structure::tuple) struct Collator<T> {
  using Batch = detail::BatchOf<T>;
  static Batch collate(std::vector<T> samples, SampleIndices indices) {
    return detail::collate_tuple<Batch>(std::move(samples), indices, std::make_index_sequence<std::tuple_size_v<T>>());
  }
};

template <class T>
requires(kStructure<T> == Structure::list && !std::is_array_v<T>) struct Collator<T> {
  using Batch = detail::BatchOf<T>;
  static Batch collate(std::vector<T> samples, SampleIndices indices) {
    using Part = typename T::value_type;
    detail::check_lengths(samples, indices);
    Batch batch = {};
    for (std::size_t i = 0; i < samples[0].size(); ++i) {
      auto part = detail::collate_part<Part>(samples, indices, i, [i](T& sample) {
        return Part(std::move(*std::next(sample.begin(), std::ptrdiff_t(i))));
      });
      if constexpr (requires { batch.resize(0); })
        batch.push_back(std::move(part));
      else
        batch[i] = std::move(part);
    }
    return batch;
  }
};

template <class T>
requires(kStructure<T> == Structure::map) struct Collator<T> {
  using Batch = detail::BatchOf<T>;
  static Batch collate(std::vector<T> samples, SampleIndices indices) {
    for (std::size_t i = 1; i < samples.size(); ++i) {
      detail::check_keys(samples[0], indices[0], samples[i], indices[i]);
      detail::check_keys(samples[i], indices[i], samples[0], indices[0]);
    }
    Batch batch;
    for (const auto& entry : samples[0]) {
      const auto& key = entry.first;
      with_key_text(key, [&](std::string_view text) {
        batch.emplace(key, detail::collate_part<typename T::mapped_type>(
                               samples, indices, text, [&](T& sample) { return std::move(sample.find(key)->second); }));
      });
    }
    return batch;
  }
};

template <class T>
requires(kStructure<T> == Structure::optional) struct Collator<T> {
  using Batch = detail::BatchOf<T>;
  static Batch collate(std::vector<T> samples, SampleIndices indices) {
    for (std::size_t i = 1; i < samples.size(); ++i)
      if (samples[i].has_value() != samples[0].has_value())
        detail::throw_only_some_set(indices[samples[0] ? 0 : i], indices[samples[0] ? i : 0]);
    if (!samples[0]) return std::nullopt;
    return detail::collate_part<typename T::value_type>(samples, indices, [](T& sample) { return std::move(*sample); });
  }
};

template <class T>
requires(kStructure<T> == Structure::variant) struct Collator<T> {
  using Batch = detail::BatchOf<T>;
  static Batch collate(std::vector<T> samples, SampleIndices indices) {
    for (std::size_t i = 1; i < samples.size(); ++i)
      if (samples[i].index() != samples[0].index())
        detail::throw_alternatives_differ(samples[0].index(), indices[0], samples[i].index(), indices[i]);
    return collate_alternative<0>(samples, indices);
  }

 private:
  template <std::size_t I>
  static Batch collate_alternative(std::vector<T>& samples, SampleIndices indices) {
    if constexpr (I + 1 < std::variant_size_v<T>)
      if (samples[0].index() != I) return collate_alternative<I + 1>(samples, indices);
    return Batch(std::in_place_index<I>,
                 detail::collate_part<std::variant_alternative_t<I, T>>(
                     samples, indices, [](T& sample) { return std::get<I>(std::move(sample)); }));
  }
};

template <detail::CollatesByMembers T>
struct Collator<T> {
  static T collate(std::vector<T> samples, SampleIndices indices) {
    constexpr std::size_t kCount = decltype(std::declval<T&>().members())::kCount;
    return detail::collate_members(std::move(samples), indices, std::make_index_sequence<kCount>());
  }
};

}  // namespace lockstep::data
