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

/// A module with forward(Tensor) -> Tensor, whatever its type. A value: copying copies the module.
class LOCKSTEP_API AnyModule : public Module<AnyModule> {
 public:
  template <class M>
  requires(std::derived_from<M, ModuleBase> && !std::same_as<M, AnyModule>) AnyModule(M module)
      : held_(std::make_unique<Held<M>>(std::move(module))) {}
  AnyModule(const AnyModule& other) : Module(other), held_(other.held_->clone()) {}
  AnyModule(AnyModule&&) noexcept = default;
  AnyModule& operator=(const AnyModule& other) { return *this = AnyModule(other); }
  AnyModule& operator=(AnyModule&&) noexcept = default;

  Tensor forward(const Tensor& x) { return held_->forward(x); }
  void visit(const Path& path, Visitor& visitor) override {
    visitor.module(path, *this);
    held_->module().visit(path, visitor);
  }

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
    virtual Tensor forward(const Tensor& x) = 0;
    virtual ModuleBase& module() = 0;
  };
  template <class M>
  struct Held final : Holder {
    explicit Held(M module_value) : value(std::move(module_value)) {}
    std::unique_ptr<Holder> clone() const override { return std::make_unique<Held>(value); }
    Tensor forward(const Tensor& x) override { return value.forward(x); }
    ModuleBase& module() override { return value; }
    M value;
  };
  [[noreturn]] static void throw_wrong_type(const std::type_info& wanted, const ModuleBase& held);

  std::unique_ptr<Holder> held_;
};

/// Applies its modules one after the other. Keys are their positions: 0.weight, 0.bias, 2.weight...
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
