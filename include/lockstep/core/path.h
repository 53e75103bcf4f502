// MemberPath: the path to a part of a structure, such as a parameter of a module or a tensor of an output. A walk
// builds it on the way down; its text is made only when str() or expression() is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/core/export.h>

namespace lockstep {

/// A path such as body.0.weight, as a linked list: each path refers to its parent, which must outlive it.
class LOCKSTEP_API MemberPath {
 public:
  /// A step of a path: a struct's member, an index of a list, or a map's key (a string, a number or another type).
  enum class Step : std::uint8_t { member, index, text_key, number_key, other_key };

  MemberPath() = default;                                      ///< The root, without a name.
  explicit MemberPath(std::string_view name) : name_(name) {}  ///< The root, with a name.
  MemberPath(const MemberPath& parent, std::string_view member)
      : MemberPath(parent, Step::member, member) {}  ///< A member.
  /// An element of a list or a tuple.
  MemberPath(const MemberPath& parent, std::size_t index) : parent_(&parent), index_(index), step_(Step::index) {}
  /// A step of any kind. The name is not copied: it must outlive the path.
  MemberPath(const MemberPath& parent, Step step, std::string_view name) : parent_(&parent), name_(name), step_(step) {}

  std::string str() const;         ///< The key of a state dict: body.0.weight.
  std::string expression() const;  ///< A C++ expression: output[1]["mask"].values.

 private:
  const MemberPath* parent_ = nullptr;
  std::string_view name_;
  std::size_t index_ = 0;
  Step step_ = Step::member;
};

}  // namespace lockstep
