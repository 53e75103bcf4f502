// Any modules in a row, and the holder of one module of any kind.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/nn/module.h>

namespace lockstep::nn {

/// A module with forward(Tensor) -> Tensor, whatever its type. A value: copying copies the module; assigning one of the
/// same type assigns its values, so that handles to the parameters stay valid.
class LOCKSTEP_API AnyModule : public Module<AnyModule> {
 public:
  template <class M>
  requires(std::derived_from<M, ModuleBase> && !std::same_as<M, AnyModule>) AnyModule(M module)
      : held_(std::make_unique<Held<M>>(std::move(module))) {
    static_assert(IsItself<M>, "a module that derives from another one: hold that as a member instead");
  }
  AnyModule(const AnyModule& other) : Module(other), held_(other.held_->clone()) {}
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(const AnyModule& other) {
    if (!held_ || !held_->assign(*other.held_)) held_ = other.held_->clone();
    return *this;
  }
  AnyModule& operator=(AnyModule&&) noexcept = default;

  Tensor forward(const Tensor& x) { return held_->forward(x); }
  /// It is the module that it holds.
  void visit(const Path& path, Visitor& visitor) override { held_->module().visit(path, visitor); }
  bool is_training() const noexcept { return held_->module().is_training(); }
  void set_mode(bool training) noexcept { held_->module().set_mode(training); }

  /// The module itself. Throws InvalidArgument if it is of another type.
  template <class M>
  M& as() {
    if (auto* held = dynamic_cast<Held<M>*>(held_.get())) return held->value;
    throw_wrong_type(typeid(M), held_->module());
  }

 private:
  struct Holder {
    virtual ~Holder() = default;
    virtual std::unique_ptr<Holder> clone() const = 0;
    virtual bool assign(const Holder& other) = 0;  ///< False if it is of another type.
    virtual Tensor forward(const Tensor& x) = 0;
    virtual ModuleBase& module() = 0;
  };
  template <class M>
  struct Held final : Holder {
    explicit Held(M module_value) : value(std::move(module_value)) {}
    std::unique_ptr<Holder> clone() const override { return std::make_unique<Held>(value); }
    bool assign(const Holder& other) override {
      if constexpr (std::is_copy_assignable_v<M>) {
        if (const auto* same = dynamic_cast<const Held*>(&other)) return value = same->value, true;
      }
      return false;
    }
    Tensor forward(const Tensor& x) override { return value.forward(x); }
    ModuleBase& module() override { return value; }
    M value;
  };
  [[noreturn]] static void throw_wrong_type(const std::type_info& wanted, const ModuleBase& held);

  std::unique_ptr<Holder> held_;
};

/// Applies its modules one after the other. Keys are their positions: 0.weight, 0.bias, 2.weight... (Sequential(other)
/// is a copy of the other; push_back() puts one inside another.)
class LOCKSTEP_API Sequential : public Module<Sequential> {
 public:
  Sequential() = default;
  template <class... Modules>
  requires(std::derived_from<Modules, ModuleBase>&&...) explicit Sequential(Modules... modules) {
    (items_.emplace_back(std::move(modules)), ...);
  }

  void push_back(AnyModule module) { items_.push_back(std::move(module)); }
  std::size_t size() const noexcept { return items_.size(); }
  /// Throws InvalidArgument past the end.
  AnyModule& operator[](std::size_t index);

  Tensor forward(Tensor x);
  void visit(const Path& path, Visitor& visitor) override;

 private:
  std::vector<AnyModule> items_;
};

}  // namespace lockstep::nn
