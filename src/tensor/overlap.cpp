#include "tensor/overlap.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/integers.h"

namespace lockstep {
namespace {

/// A term of a sum: an integer from `least` to `most`, times `stride`.
struct Term {
  std::int64_t stride, least, most;
};

// True if the terms can add up to `sum`. Their strides are positive, the greatest first. If each stride exceeds the sum
// of all smaller terms, as in views of one array, few factors of each stride need to be tried.
bool can_add_up(std::span<const Term> terms, std::int64_t sum, int& tries) noexcept {
  if (terms.empty()) return sum == 0;
  if (--tries < 0) return true;
  const Term& greatest = terms.front();
  const auto smaller = terms.subspan(1);
  std::int64_t least = 0, most = 0;
  for (const Term& term : smaller) least += term.least * term.stride, most += term.most * term.stride;
  const std::int64_t from = std::max(greatest.least, -floor_div(most - sum, greatest.stride));
  const std::int64_t to = std::min(greatest.most, floor_div(sum - least, greatest.stride));
  for (std::int64_t factor = from; factor <= to; ++factor)
    if (can_add_up(smaller, sum - factor * greatest.stride, tries)) return true;
  return false;
}

}  // namespace

bool overlaps_itself(const TensorImpl& written) noexcept {
  if (written.contiguous || written.numel == 0) return false;
  for (int i = 0; i < written.sizes.rank(); ++i)
    if (written.strides[i] == 0 && written.sizes[i] > 1) return true;
  return false;
}

bool overlaps_elsewhere(const TensorImpl& written, const TensorImpl& read) noexcept {
  if (written.storage != read.storage || written.numel == 0 || read.numel == 0) return false;
  if (written.offset == read.offset && written.sizes == read.sizes && written.strides == read.strides) return false;

  std::array<Term, 2 * Shape::kMaxRank> terms;
  std::size_t count = 0;
  const auto add = [&](std::int64_t stride, std::int64_t least, std::int64_t most) {
    if (stride == 0) return;
    const auto same = std::find_if(terms.begin(), terms.begin() + count, [&](auto& t) { return t.stride == stride; });
    if (same == terms.begin() + count) terms[count++] = {stride, 0, 0};
    same->least += least;
    same->most += most;
  };
  for (int i = 0; i < written.sizes.rank(); ++i) add(written.strides[i], 0, written.sizes[i] - 1);
  for (int i = 0; i < read.sizes.rank(); ++i) add(read.strides[i], 1 - read.sizes[i], 0);
  std::sort(terms.begin(), terms.begin() + count, [](auto& a, auto& b) { return a.stride > b.stride; });
  int tries = 1000;
  return can_add_up(std::span(terms).first(count), read.offset - written.offset, tries);
}

}  // namespace lockstep
