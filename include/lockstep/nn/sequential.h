// Sequential: modules in a row. AnyModule: holds one module of any type.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/core/moved_from.h>
#include <lockstep/nn/callable.h>
#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// Owns a module of any type with forward(Tensor) -> Tensor; pass std::move(module) or copy(module). A value type:
/// copying it copies the module; assigning a module of the same type assigns its values, so that handles to the
/// parameters stay valid. A moved-from AnyModule throws InvalidArgument.
class LOCKSTEP_API AnyModule : public Module<AnyModule> {
 public:
  /// Takes ownership of the module.
  template <class Given, class M = std::remove_cvref_t<Given>>
  requires(std::derived_from<M, ModuleBase> && !std::same_as<M, AnyModule>) AnyModule(Given&& module)
      : held_(std::make_unique<Held<M>>(std::forward<Given>(module))) {
    detail::require_moved<Given>();
    static_assert(IsMostDerived<M>, "a module must not derive from another module: hold the other module as a member");
  }
  template <TensorFunction F>
  AnyModule(F&& function) : AnyModule(Functional<std::decay_t<F>>(std::forward<F>(function))) {}
  LOCKSTEP_COPIED_IF_ASKED(AnyModule);

  Tensor forward(const Tensor& x) { return held_->forward(x); }
  /// Visits the held module in place of this one.
  void visit(const Path& path, Visitor& visitor) override { held_->module().visit(path, visitor); }
  bool is_training() const { return held_->module().is_training(); }    ///< Mode of the held module.
  void set_mode(bool training) { held_->module().set_mode(training); }  ///< Sets the mode of the held module.
  /// Registers a hook of the held module.
  HookHandle register_forward_hook(ForwardHook hook) { return held_->module().register_forward_hook(std::move(hook)); }

  /// The held module. Throws InvalidArgument if it has another type.
  template <class M>
  M& as() {
    if (M* const module = find<M>()) return *module;
    throw_wrong_type(typeid(M), held_->module());
  }
  /// The held module, or null if it has another type.
  template <class M>
  M* find() {
    auto* const held = dynamic_cast<Held<M>*>(held_.holder.get());
    return held ? &held->value : nullptr;
  }

 private:
  struct Holder {
    virtual ~Holder() = default;
    virtual std::unique_ptr<Holder> clone() const = 0;
    virtual bool assign(const Holder& other) = 0;  ///< Returns false if `other` has another type.
    virtual Tensor forward(const Tensor& x) = 0;
    virtual ModuleBase& module() = 0;
  };
  template <class M>
  struct Held final : Holder {
    explicit Held(const M& copied) : value(copied) {}
    explicit Held(M&& given) : value(std::move(given)) {}
    std::unique_ptr<Holder> clone() const override { return std::make_unique<Held>(value); }
    bool assign(const Holder& other) override {
      if constexpr (std::is_copy_assignable_v<M>) {
        if (const auto* same = dynamic_cast<const Held*>(&other)) return value = same->value, true;
      }
      return false;
    }
    Tensor forward(const Tensor& x) override { return value(x); }
    ModuleBase& module() override { return value; }
    M value;
  };
  // A pointer that copies its target.
  struct Any {
    explicit Any(std::unique_ptr<Holder> made) : holder(std::move(made)) {}
    Any(const Any& other) : holder(other->clone()) {}
    Any(Any&&) noexcept = default;
    Any& operator=(const Any& other) {
      if (!holder || !holder->assign(*other)) holder = other->clone();
      return *this;
    }
    Any& operator=(Any&&) noexcept = default;
    Holder& operator*() const { return lockstep::detail::checked_deref(holder, "AnyModule", "a module"); }
    Holder* operator->() const { return &**this; }
    std::unique_ptr<Holder> holder;
  };
  [[noreturn]] static void throw_wrong_type(const std::type_info& wanted, const ModuleBase& held);

  Any held_;
};

/// Applies its modules one after the other: Sequential{Linear(4, 8), ReLU(), Linear(8, 2)}. Use braces: with
/// parentheses C++ leaves open in which order the modules are made, and GCC's initial weights differ from clang's. Keys
/// are the modules' positions: 0.weight, 0.bias, 2.weight... It owns its modules; pass std::move(module) or
/// copy(module). (Sequential(other) copies `other`; push_back() nests it.)
class LOCKSTEP_API Sequential : public Module<Sequential> {
 public:
  Sequential() = default;
  /// Takes ownership of the modules.
  template <class... Given>
  requires((std::derived_from<std::remove_cvref_t<Given>, ModuleBase> || TensorFunction<Given>)&&...) &&
      (sizeof...(Given) != 1 ||
       !(std::same_as<std::remove_cvref_t<Given>, Sequential> && ...)) explicit Sequential(Given&&... modules) {
    (require_moved<Given>(), ...);
    (items_.emplace_back(std::forward<Given>(modules)), ...);
  }
  LOCKSTEP_COPIED_IF_ASKED(Sequential);

  void push_back(AnyModule module) { items_.push_back(std::move(module)); }  ///< Appends a module.
  std::size_t size() const noexcept { return items_.size(); }
  /// Throws InvalidArgument past the end.
  AnyModule& operator[](std::size_t index);

  Tensor forward(Tensor x);
  void visit(const Path& path, Visitor& visitor) override;

 private:
  template <class Given>
  static void require_moved() {
    if constexpr (!TensorFunction<Given>) detail::require_moved<Given>();
  }

  std::vector<AnyModule> items_;
};

}  // namespace lockstep::nn
