// The state dict of LBFGS.
#include <lockstep/ops/join.h>
#include <lockstep/optim/lbfgs.h>
#include <lockstep/tensor/creation.h>

#include "optim/optimizer_impl.h"
#include "optim/state_reader.h"

namespace lockstep::optim {
namespace {

constexpr const char* kPrefix = "state.0.";

std::vector<Tensor> rows_of(const Tensor& matrix) {
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < matrix.size(0); ++i) rows.push_back(matrix.select(0, i).clone());
  return rows;
}

}  // namespace

void LBFGS::add_own_state(StateDict& dict) const {
  const State& s = state_;
  if (s.n_iter == 0) return;
  const auto add = [&](const char* name, const Tensor& value) { dict.add(std::string(kPrefix) + name, value); };
  add("func_evals", number_tensor(double(s.func_evals)));
  add("n_iter", number_tensor(double(s.n_iter)));
  add("d", s.d);
  add("t", number_tensor(s.t));
  const Tensor none = zeros({0, elements()}, s.d.options());
  add("old_dirs", s.old_dirs.empty() ? none : stack(s.old_dirs));
  add("old_stps", s.old_stps.empty() ? none : stack(s.old_stps));
  add("ro", from_host(s.ro.data(), s.ro.size(), kFloat64, {std::int64_t(s.ro.size())}, {.dtype = kFloat64}));
  add("H_diag", number_tensor(s.H_diag));
  add("prev_flat_grad", s.prev_flat_grad);
  add("prev_loss", number_tensor(s.prev_loss));
}

std::function<void()> LBFGS::read_own_state(StateReader& reader) {
  const auto key = [](const char* name) { return std::string(kPrefix) + name; };
  State s;
  bool any = false;
  for (const char* name : {"func_evals", "n_iter", "d", "old_dirs", "prev_flat_grad"}) any |= reader.has(key(name));
  if (!any) return [this] { state_ = {}; };
  const std::int64_t all = elements();
  reader.integer(key("func_evals"), s.func_evals);
  reader.integer(key("n_iter"), s.n_iter);
  reader.number(key("t"), s.t);
  reader.number(key("H_diag"), s.H_diag);
  reader.number(key("prev_loss"), s.prev_loss);
  const Tensor* const history = reader.any(key("old_dirs"));
  const std::int64_t count = history && history->dim() == 2 ? history->size(0) : 0;
  const Tensor* const d = reader.tensor(key("d"), {all});
  const Tensor* const gradient = reader.tensor(key("prev_flat_grad"), {all});
  const Tensor* const dirs = reader.tensor(key("old_dirs"), {count, all});
  const Tensor* const steps = reader.tensor(key("old_stps"), {count, all});
  s.ro.resize(std::size_t(count));
  reader.numbers(key("ro"), s.ro);
  if (!d || !gradient || !dirs || !steps) return {};
  const Tensor& like = parameters()[0];
  const auto there = [&](const Tensor& value) { return value.detach().to(like.device(), like.dtype()).clone(); };
  s.d = there(*d);
  s.prev_flat_grad = there(*gradient);
  s.old_dirs = rows_of(there(*dirs));
  s.old_stps = rows_of(there(*steps));
  return [this, s] { state_ = s; };
}

}  // namespace lockstep::optim
