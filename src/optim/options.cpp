#include <lockstep/optim/rule.h>

#include "core/text.h"
#include "tensor/tensor_impl.h"

namespace lockstep::optim {

void expect_slots(const char* op, const Batch& batch, unsigned slots) {
  if (batch.items.empty()) return;
  for (std::size_t k = 0; k < 8 * sizeof slots; ++k)
    if ((slots >> k & 1) && (k >= kMaxSlots || !batch.items.front().slots[k]))
      throw InvalidArgument(
          text("[", op, "] apply() uses slot ", k, ", but the optimizer's slots() does not declare it as used"));
}

void bump_versions(const Batch& batch, unsigned slots) noexcept {
  for (const Batch::Item& item : batch.items) {
    bump_version(*item.parameter);
    for (std::size_t k = 0; k < kMaxSlots; ++k)
      if (item.slots[k] && (slots >> k & 1)) bump_version(*item.slots[k]);
  }
}

void require(bool holds, const char* optimizer, std::string_view expected, double got) {
  if (!holds) throw InvalidArgument(text("[", optimizer, "] expected ", expected, ", got ", got));
}

void require_not_negative(const char* optimizer, std::initializer_list<std::pair<std::string_view, double>> options) {
  for (const auto& [name, value] : options)
    if (!(value >= 0)) require(false, optimizer, text(name, " >= 0"), value);  // no text is built on success
}

void require_betas(const char* optimizer, const std::array<double, 2>& betas) {
  for (const double beta : betas) require(beta >= 0 && beta < 1, optimizer, "betas in [0, 1)", beta);
}

}  // namespace lockstep::optim
