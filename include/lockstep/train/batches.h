// Batches: a handle to a loader of any type. Through it the training loop iterates over the loader's batches in each
// epoch, and saves and restores the loader's position.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include <lockstep/data/loader_options.h>
#include <lockstep/tensor/tensors_in.h>
#include <lockstep/train/optional_ref.h>

namespace lockstep::train {

/// The type of a loader's batches.
template <class Loader>
using BatchOf = std::remove_cvref_t<decltype(*std::declval<Loader&>().begin())>;

/// The part of Batches that does not depend on the batch type. A function that the loader does not support is null.
struct LoaderHandle {
  std::function<std::int64_t()> size;                        ///< Batches in an epoch.
  std::function<data::LoaderState()> state;                  ///< The loader's position, for checkpoints.
  std::function<void(const data::LoaderState&)> load_state;  ///< Continues from that position.
  /// The part of each batch's rows that this process loads. Nullopt if the loader has no share, or loads all rows.
  std::optional<data::BatchShare> share = {};
  /// Rows of the current batch over all processes; set together with share.
  std::function<std::int64_t()> rows_of_all;
};

/// Refers to a loader: any range of batches that can be iterated again in each epoch, such as data::DataLoader or a
/// vector. With gradient accumulation the tensors of a batch must keep their values until the step. The progress bar
/// needs size(); checkpoints need state() and load_state().
template <class Batch>
struct Batches : LoaderHandle {
  Batches() = default;  ///< Refers to no loader.
  /// Refers to the loader, which must outlive this.
  template <class Loader>
  requires(!std::derived_from<std::remove_cvref_t<Loader>, LoaderHandle>) Batches(Loader&& loader) {
    if constexpr (!std::is_lvalue_reference_v<Loader> || std::is_pointer_v<std::remove_cvref_t<Loader>>)
      static_assert(detail::kNever<Loader>,
                    "a loader is kept by reference: give the object itself, as in {.validation = validation_loader}, "
                    "not a pointer and not a temporary");
    else if constexpr (!requires { typename BatchOf<Loader>; })
      static_assert(detail::kNever<Loader>,
                    "a loader must be a range of batches: data::DataLoader(dataset, {.batch_size = 32}), or a "
                    "std::vector of batches");
    else if constexpr (!std::same_as<BatchOf<Loader>, Batch>)
      static_assert(detail::kNever<Loader>,
                    "the validation loader must give batches of the same type as the training loader, such as "
                    "std::tuple<Tensor, Tensor>");
    else
      refer_to(loader);
  }

  /// Iterates over one epoch, or until `visit` returns false.
  std::function<void(const std::function<bool(const Batch&)>& visit)> each;

 private:
  template <class Loader>
  void refer_to(Loader& loader) {
    each = [&loader](const std::function<bool(const Batch&)>& visit) {
      for (auto&& batch : loader)
        if (!visit(batch)) return;
    };
    if constexpr (requires { loader.size(); }) size = [&loader] { return std::int64_t(loader.size()); };
    if constexpr (requires(data::LoaderState s) { s = loader.state(), loader.load_state(s); }) {
      state = [&loader] { return loader.state(); };
      load_state = [&loader](const data::LoaderState& at) { loader.load_state(at); };
    }
    if constexpr (requires {
                    loader.share().is_all();
                    loader.rows_in(loader.state().batch);
                  })
      if (!loader.share().is_all()) {
        share = loader.share();
        rows_of_all = [&loader] { return loader.rows_in(loader.state().batch - 1); };
      }
  }
};

/// Returns the batch with every tensor in it detached and on `device`. A tensor that is already on `device` is not
/// copied. Does not compile for a batch type that may contain tensors which for_each_tensor() cannot find.
template <class Batch>
Batch moved_to(Batch batch, Device device) {
  for_each_tensor(batch, MemberPath(), [&](const MemberPath&, Tensor& tensor) { tensor = tensor.detach().to(device); });
  return batch;
}

/// The size along `dim` of the first tensor that has this dimension; 1 if none has.
template <class Batch>
std::int64_t rows_in(Batch& batch, std::int64_t dim) {
  std::int64_t rows = -1;
  for_each_tensor(batch, MemberPath(), [&](const MemberPath&, const Tensor& tensor) {
    if (rows < 0 && tensor.dim() > (dim < 0 ? -dim - 1 : dim)) rows = tensor.size(int(dim));
  });
  return rows < 0 ? 1 : rows;
}

/// The version of each tensor: how often it was changed in place.
template <class Batch>
std::vector<std::uint64_t> versions_in(Batch& batch) {
  std::vector<std::uint64_t> versions;
  for_each_tensor(batch, MemberPath(),
                  [&](const MemberPath&, const Tensor& tensor) { versions.push_back(tensor.version()); });
  return versions;
}

}  // namespace lockstep::train
