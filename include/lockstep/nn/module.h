// Modules are plain values with forward() and members():
//
//   struct Model : nn::Module<Model> {
//     nn::Linear fc;
//     Model(int64_t in, int64_t out) : fc(in, out) {}
//     auto members() { return nn::members("fc", fc); }
//     Tensor forward(const Tensor& x) { return fc(x); }
//   };
//
//   for (nn::ModuleBase* module : net.modules())
//     if (auto* norm = module->as<nn::BatchNorm2d>()) norm->eval();
//
// Members may be parameters, buffers, modules, settings (numbers, bools, enums), and structures of those
// (core/structure.h; keys of maps are strings or numbers). Copying a module copies its state; training the copy does
// not change the original. Copies of the library's modules are explicit: Linear b(a), or copy(a).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <lockstep/autograd/autograd.h>
#include <lockstep/core/lifetime.h>
#include <lockstep/core/moved_from.h>
#include <lockstep/core/path.h>
#include <lockstep/core/structure.h>
#include <lockstep/nn/parameter.h>
#include <lockstep/tensor/state_dict.h>

namespace lockstep::nn {

using lockstep::members;
using Path = MemberPath;  ///< The place of a member in a module: "layers.0.weight".

class ModuleBase;

/// Receives the members of a module, in order.
class LOCKSTEP_API Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void module(const Path&, ModuleBase&) {}    ///< Called before the module's members.
  virtual void parameter(const Path&, Parameter&) {}  ///< A trained tensor.
  virtual void buffer(const Path&, Buffer&) {}        ///< State that is not trained.
  /// A plain value of `bytes` bytes.
  virtual void setting(const Path&, void* /*value*/, std::size_t /*bytes*/) {}
  /// The number of parts in a container, or the index of a variant's alternative. Called before its parts.
  virtual void extent(const Path&, std::size_t) {}
};

/// Called after a module's call, with the first argument that is a tensor (an undefined Tensor if there is none), and
/// with the output, which the hook may replace.
using ForwardHook = std::function<void(ModuleBase& module, const Tensor& input, Tensor& output)>;

/// The interface of every module.
class LOCKSTEP_API ModuleBase {
 public:
  using NamedModule = std::pair<std::string, ModuleBase*>;  ///< A name, such as body.0, and the module.

  virtual ~ModuleBase() = default;

  /// This module and all below it, in the order of visit(). The pointers are valid as long as this module lives and is
  /// not moved. This module's name is empty.
  std::vector<ModuleBase*> modules();
  std::vector<NamedModule> named_modules();  ///< modules() with names, such as body.0.
  /// The modules that this one holds directly, also in containers.
  std::vector<ModuleBase*> children();
  std::vector<NamedModule> named_children();  ///< children() with names.
  /// Calls the function for each module below, then for this one.
  void apply(const std::function<void(ModuleBase&)>& function);
  /// This module as its own type, or null if it has another type.
  template <class M>
  M* as() noexcept {
    return dynamic_cast<M*>(this);
  }

  /// Handles to the parameters. Throws InvalidArgument if one has no shape yet, because its module is lazy and has had
  /// no batch.
  std::vector<Tensor> parameters() const;
  std::vector<StateDict::Entry> named_parameters() const;  ///< parameters() with their state-dict keys.
  std::int64_t num_parameters() const;                     ///< Number of elements, without lazy parameters.
  std::vector<Tensor> buffers() const;                     ///< Handles to all buffers that have a shape.
  std::vector<StateDict::Entry> named_buffers() const;     ///< buffers() with their keys.
  /// The device of the first parameter, or of the first buffer if there is no parameter. Throws InvalidArgument if
  /// there is neither.
  Device device() const;
  /// Trains the parameters, or freezes them if `on` is false. Before anything is changed, throws InvalidArgument naming
  /// a parameter that has no shape yet, and DTypeError for a parameter that is not floating.
  void requires_grad_(bool on = true);
  /// Handles to parameters and persistent buffers, detached from the autograd graph.
  StateDict state_dict() const;
  /// Copies values into parameters and buffers, on any device. Before anything is changed, throws one InvalidArgument
  /// that names all missing and unexpected keys and all wrong shapes.
  IncompatibleKeys load_state_dict(const StateDict& state, const LoadOptions& options = {});

  /// Moves all parameters and buffers; handles to them stay valid. Throws before anything has moved if the device does
  /// not exist.
  void to(Device device);
  /// Converts floating parameters and buffers. Throws DTypeError unless the dtype is floating.
  void to(DType dtype);
  void train(bool on = true);    ///< Sets the mode of this module and all below it.
  void eval() { train(false); }  ///< Evaluation mode: no dropout; BatchNorm uses its running statistics.
  bool is_training() const;      ///< The mode of this module.
  /// True if this module was moved from. Calls of such a module, and of functions for its parameters and state, throw
  /// InvalidArgument.
  bool is_moved_from() const noexcept { return moved_from_.value; }
  void set_mode(bool training) noexcept { training_ = training; }  ///< Sets the mode of this module alone.
  void zero_grad();                                                ///< Drops the gradients of all parameters.

  /// Calls `hook` after each call of this module (not of its forward()). Copies of the module have the hook too. Each
  /// replica of a model on several devices calls it on the replica's thread with the replica's rows. A captured step
  /// calls it during the capture, but not when its CUDA graph is launched. If the module's call does not return a
  /// tensor, the call throws InvalidArgument.
  HookHandle register_forward_hook(ForwardHook hook);
  bool has_forward_hooks() const noexcept;  ///< True if a hook was registered and not removed.
  /// Replaces this module's hooks by those of `other`.
  void take_forward_hooks(const ModuleBase& other) noexcept { forward_hooks_ = other.forward_hooks_; }

  /// Writes this module alone, in one line: Dropout(p=0.5). Printing a module calls it for all modules below too. By
  /// default it writes the type's name and the settings in members().
  virtual void pretty_print(std::ostream& out) const;

  /// Visits this module and all below it.
  virtual void visit(const Path& path, Visitor& visitor) = 0;

 protected:
  ModuleBase() = default;
  ModuleBase(const ModuleBase&) = default;
  ModuleBase(ModuleBase&&) = default;
  ModuleBase& operator=(const ModuleBase&) = default;
  ModuleBase& operator=(ModuleBase&&) = default;

  /// Calls the hooks: see register_forward_hook().
  void call_forward_hooks(const Tensor& input, Tensor& output);
  [[noreturn]] void refuse_forward_hooks() const;  ///< Throws InvalidArgument: the output is not a tensor.

 private:
  struct ForwardHooks;
  friend class StepModules;

  bool training_ = true;
  std::shared_ptr<const ForwardHooks> forward_hooks_;  // copied on write
  lockstep::detail::MovedFrom moved_from_;
  lockstep::detail::Lifetime lifetime_;
};

/// Prints the tree of modules by name, as PyTorch does.
LOCKSTEP_API std::ostream& operator<<(std::ostream& out, const ModuleBase& module);

/// Observes each module's call on this thread, while a summary is made.
class LOCKSTEP_API ForwardObserver {
 public:
  /// Called after a module's call. `output` is null if the call returns no tensor.
  virtual void ran(const ModuleBase& module, const Tensor* output) = 0;

 protected:
  ~ForwardObserver() = default;
};
/// Returns the observer of this call, or null. If this thread runs a step that is or will be captured
/// (train/captured_step.h), notes that the step uses the module: after a change of the module's mode, settings or
/// tensors, the step runs eagerly instead of launching its CUDA graph.
LOCKSTEP_API ForwardObserver* begin_call(ModuleBase& module);

}  // namespace lockstep::nn

/// Code that walks the parts of structures takes a module as one piece, because a module visits its own members.
template <std::derived_from<lockstep::nn::ModuleBase> M>
inline constexpr bool lockstep::kIsPiece<M> = true;

namespace lockstep::nn {

template <class Self>
class Module;

namespace detail {

template <class Self>
Self self_of(const Module<Self>&);

template <class T>
inline constexpr bool kUnsupported = false;

// A module with its own visit().
template <class Self>
concept WalksItself = requires {
  requires !std::same_as<decltype(&Self::visit), void (Module<Self>::*)(const Path&, Visitor&)>;
};

// A module whose forward() takes a struct of options as its last argument: the struct is the type Self::Call.
template <class Self>
concept TakesOptions = requires {
  typename Self::Call;
};

// Matches an argument in braces, which has no type.
struct Braces {
  template <class... T>
  Braces(T&&...) {}
};

// True if visit_member() visits the parts of a T. It cannot visit those of a vector<bool>, which has no references to
// its bools, or those of a map whose keys cannot be part of a name.
template <class T>
inline constexpr bool kIsLookedInto = kStructure<T> != Structure::piece && !std::same_as<T, std::vector<bool>>;
template <class T>
requires(kStructure<T> == Structure::map) inline constexpr bool kIsLookedInto<T> =
    kKeyStep<typename T::key_type> != Path::Step::other_key;

// Writes Name(setting=value, ...).
class LOCKSTEP_API OwnLine {
 public:
  OwnLine(std::ostream& out, const std::type_info& type);
  ~OwnLine();
  OwnLine(const OwnLine&) = delete;
  OwnLine& operator=(const OwnLine&) = delete;
  void setting(std::string_view named, double value);
  void setting(std::string_view named, std::int64_t value);
  void setting(std::string_view named, bool value);
  std::ostream& name(std::string_view name);  ///< Writes the name of a setting; its value comes next.

 private:
  std::ostream& out_;
  bool first_ = true;
};

/// Returns the first argument that is a tensor; an undefined Tensor if there is none.
template <class... Arguments>
Tensor first_tensor(const Arguments&... arguments) {
  Tensor first;
  const auto look = [&](const auto& argument) {
    if constexpr (std::derived_from<std::remove_cvref_t<decltype(argument)>, Tensor>)
      if (!first.defined()) first = argument;
  };
  (look(arguments), ...);
  return first;
}

/// Does not compile for a module that would be copied: training the copy would not train the caller's module.
template <class Given>
void require_moved() {
  static_assert(!std::is_lvalue_reference_v<Given> && !std::is_const_v<Given>,
                "this would copy a module: pass std::move(module), or a copy by lockstep::copy(module)");
}

template <class T>
void visit_member(const Path& path, T& member, Visitor& visitor);

}  // namespace detail

/// False for a module that derives from another module: its base's forward() and members() would be used.
template <class T>
concept IsMostDerived = !requires(const T& module) {
  detail::self_of(module);
}
|| std::same_as<decltype(detail::self_of(std::declval<const T&>())), T>;

namespace detail {

template <class T>
void visit_member(const Path& path, T& member, Visitor& visitor) {
  if constexpr (std::is_const_v<T>) {
    static_assert(kUnsupported<T>, "members() must not be const, nor list a const member");
  } else if constexpr (std::derived_from<T, ModuleBase>) {
    static_assert(IsMostDerived<T>, "a module must not derive from another module: hold the other module as a member");
    static_cast<ModuleBase&>(member).visit(path, visitor);
  } else if constexpr (std::same_as<T, Parameter>) {
    visitor.parameter(path, member);
  } else if constexpr (std::same_as<T, Buffer>) {
    visitor.buffer(path, member);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    visitor.setting(path, &member, sizeof member);
  } else if constexpr (kIsLookedInto<T>) {
    if constexpr (kHasExtent<T>) visitor.extent(path, extent_of(member));
    for_each_part(member, path, [&](auto& part, const Path& at) { visit_member(at, part, visitor); });
  } else {
    require_known<T, false>();
  }
}

}  // namespace detail

/// The base of a module `Self` that has forward(...) and, if it has state, members().
template <class Self>
class Module : public ModuleBase {
 public:
  /// Calls forward().
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return call_forward(std::forward<Arguments>(arguments)...);
  }
  /// With options in braces, attention(q, k, v, {.need_weights = false}): for modules whose forward() takes options of
  /// type Self::Call last.
  template <class A, class S = Self>
  decltype(auto) operator()(A&& a, const typename S::Call& call) {
    return call_forward(std::forward<A>(a), call);
  }
  template <class A, class B, class S = Self>
  decltype(auto) operator()(A&& a, B&& b, const typename S::Call& call) {
    return call_forward(std::forward<A>(a), std::forward<B>(b), call);
  }
  template <class A, class B, class C, class S = Self>
  decltype(auto) operator()(A&& a, B&& b, C&& c, const typename S::Call& call) {
    return call_forward(std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), call);
  }

  /// Does not compile: a const module cannot be called, because a call may change it.
  template <class... Arguments>
  auto operator()(Arguments&&...) const {
    static_assert(
        detail::kUnsupported<void(Arguments...)>,
        "a module cannot be called through a const reference, nor in a const forward(), because a call may change "
        "it (running means, lazy parameters): leave the const out, for losses too");
  }
  /// These overloads do not compile: arguments in braces have no type.
  template <class S = Self, class... Rest>
  requires(!detail::TakesOptions<S>) auto operator()(detail::Braces, Rest&&...) { return refuse_braces<Rest...>(); }
  template <class First, class S = Self, class... Rest>
  requires(!detail::TakesOptions<S>) auto operator()(First&&, detail::Braces, Rest&&...) {
    return refuse_braces<First, Rest...>();
  }
  template <class First, class Second, class S = Self, class... Rest>
  requires(!detail::TakesOptions<S>) auto operator()(First&&, Second&&, detail::Braces, Rest&&...) {
    return refuse_braces<First, Second, Rest...>();
  }

  void pretty_print(std::ostream& out) const override {
    detail::OwnLine line(out, typeid(Self));
    if constexpr (HasMembers<Self>)
      for_each_member(const_cast<Self&>(static_cast<const Self&>(*this)), [&](std::string_view name, auto& member) {
        using T = std::remove_cvref_t<decltype(member)>;
        if constexpr (std::same_as<T, bool> || std::floating_point<T>)
          line.setting(name, std::conditional_t<std::same_as<T, bool>, bool, double>(member));
        else if constexpr (std::integral<T> || std::is_enum_v<T>)
          line.setting(name, std::int64_t(member));
      });
  }

  /// Visits the members().
  void visit(const Path& path, Visitor& visitor) override {
    // Copying a parameter allocates and may throw. So a module whose copy cannot throw holds no parameters, and needs
    // no members().
    static_assert(
        HasMembers<Self> || std::is_nothrow_copy_constructible_v<Self> || detail::WalksItself<Self>,
        "a module that may hold parameters needs a public members(), or they would be neither trained nor saved: "
        "auto members() { return nn::members(\"fc\", fc); }, or, if it holds none, "
        "auto members() { return nn::members(); }");
    visitor.module(path, *this);
    if constexpr (HasMembers<Self>)
      for_each_member(static_cast<Self&>(*this), [&](std::string_view name, auto& member) {
        detail::visit_member(Path(path, name), member, visitor);
      });
  }

 private:
  template <class... Arguments>
  decltype(auto) call_forward(Arguments&&... arguments) {
    using Output = decltype(static_cast<Self&>(*this).forward(std::forward<Arguments>(arguments)...));
    ForwardObserver* const observer = begin_call(*this);
    const bool has_hooks = has_forward_hooks();
    if (!observer && !has_hooks) [[likely]]
      return static_cast<Self&>(*this).forward(std::forward<Arguments>(arguments)...);
    constexpr bool kIsTensor = std::same_as<Output, Tensor>;
    if (has_hooks && !kIsTensor) refuse_forward_hooks();
    if constexpr (std::is_void_v<Output>) {
      static_cast<Self&>(*this).forward(std::forward<Arguments>(arguments)...);
      observer->ran(*this, nullptr);
    } else {
      const Tensor input = has_hooks ? detail::first_tensor(arguments...) : Tensor();
      Output output = static_cast<Self&>(*this).forward(std::forward<Arguments>(arguments)...);
      if constexpr (kIsTensor) {
        if (has_hooks) call_forward_hooks(input, output);
      }
      if (observer) {
        if constexpr (std::same_as<std::remove_cvref_t<Output>, Tensor>)
          observer->ran(*this, &output);
        else
          observer->ran(*this, nullptr);
      }
      return static_cast<Output>(output);
    }
  }

  template <class... Arguments>
  static auto refuse_braces() {
    static_assert(detail::kUnsupported<void(Arguments...)>,
                  "name the argument in braces, as in net(tensor({1.f, 2.f})), lstm(x, std::tuple(h, c)) or "
                  "net(std::vector<Tensor>{a, b}): braces have no type in the call of a module");
  }
};

}  // namespace lockstep::nn

namespace lockstep {

/// A copy of a module, a parameter or a buffer, with its own elements. (For a Tensor: clone().)
template <class M>
requires(std::derived_from<M, nn::ModuleBase> || std::derived_from<M, nn::State>) M copy(const M& module) {
  return M(module);
}

}  // namespace lockstep
