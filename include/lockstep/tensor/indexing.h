// The entries of x.index({...}): integers, Slice, Ellipsis, None, and tensors of indices.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/tensor/tensor.h>

namespace lockstep {

namespace detail {
[[noreturn]] LOCKSTEP_API void throw_no_index(std::string_view text);
}

struct EllipsisTag {};
/// The type of None.
struct NoneTag {
  operator std::optional<std::int64_t>() const noexcept { return {}; }  ///< None in a Slice means no bound.
};
inline constexpr EllipsisTag Ellipsis;  ///< Keeps whole all dimensions that no other entry indexes.
inline constexpr NoneTag None;          ///< A new dimension of size 1; in a Slice, no bound.

/// Elements start, start + step, ... before stop. Negative positions count from the end. Slice(1, None): all but the
/// first.
struct Slice {
  std::int64_t start = 0;                                        ///< The first element.
  std::int64_t stop = std::numeric_limits<std::int64_t>::max();  ///< One past the last element.
  std::int64_t step = 1;                                         ///< The distance between elements.

  Slice() = default;  ///< The whole dimension.
  Slice(std::optional<std::int64_t> from, std::optional<std::int64_t> to = {}, std::int64_t by = 1)
      : start(from.value_or(0)), stop(to.value_or(std::numeric_limits<std::int64_t>::max())), step(by) {}
};

/// One entry of a list of indices: an integer, a Slice, Ellipsis or None, but not a tensor.
class Index {
 public:
  /// The kind of an entry.
  enum class Kind : std::uint8_t { integer, slice, ellipsis, none };

  /// Implicit conversions from all kinds of entries.
  Index(std::int64_t integer) : kind_(Kind::integer) { slice_.start = integer; }
  Index(int integer) : Index(std::int64_t(integer)) {}
  Index(Slice slice) : kind_(Kind::slice), slice_(slice) {}
  Index(EllipsisTag) : kind_(Kind::ellipsis) {}
  Index(NoneTag) : kind_(Kind::none) {}
  /// "..." is Ellipsis. Throws InvalidArgument for another text.
  template <std::size_t kSize>
  Index(const char (&text)[kSize]) : kind_(Kind::ellipsis) {
    if (std::string_view(text) != "...") detail::throw_no_index(text);
  }

  Kind kind() const noexcept { return kind_; }                    ///< The entry's kind.
  std::int64_t integer() const noexcept { return slice_.start; }  ///< For kind integer.
  const Slice& slice() const noexcept { return slice_; }          ///< For kind slice.

 private:
  Kind kind_;
  Slice slice_;
};

/// An Index, or a tensor of indices.
class ElementIndex {
 public:
  /// From anything that converts to an Index.
  template <class T>
  requires std::convertible_to<T, Index> ElementIndex(T index) : index_(index) {}
  template <std::size_t kSize>
  ElementIndex(const char (&text)[kSize]) : index_(text) {}
  ElementIndex(Tensor places) : index_(None), places_(std::move(places)) {}

  const Index& index() const noexcept { return index_; }  ///< The Index; the Index None if the entry is a tensor.
  /// The tensor of indices; an undefined Tensor if the entry is an Index.
  const Tensor& places() const noexcept { return places_; }

 private:
  Index index_;
  Tensor places_;
};

}  // namespace lockstep
