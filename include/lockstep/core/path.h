// MemberPath: where a part stands in a structure, such as a parameter in a module or a tensor in an output.
// Refers to the parts around it, which must outlive it: it is made on the way down. Spelled out only when asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/core/export.h>

namespace lockstep {

/// A place in a structure, such as body.0.weight, as a chain that refers to its parents: they must outlive it.
class LOCKSTEP_API MemberPath {
 public:
  /// What leads from a place to the next: a member, a position, a key of a map that is a text, a number or neither.
  enum class Step : std::uint8_t { member, index, text_key, number_key, other_key };

  MemberPath() = default;                                      ///< The whole, without a name.
  explicit MemberPath(std::string_view name) : name_(name) {}  ///< The beginning of a path.
  MemberPath(const MemberPath& parent, std::string_view member)
      : MemberPath(parent, Step::member, member) {}  ///< A member.
  /// An element of a list or a tuple.
  MemberPath(const MemberPath& parent, std::size_t index) : parent_(&parent), index_(index), step_(Step::index) {}
  /// A step of any kind. The name is not copied.
  MemberPath(const MemberPath& parent, Step step, std::string_view name) : parent_(&parent), name_(name), step_(step) {}

  std::string str() const;         ///< As in state dicts: body.0.weight.
  std::string expression() const;  ///< As C++ reaches it: output[1]["mask"].values.

 private:
  const MemberPath* parent_ = nullptr;
  std::string_view name_;
  std::size_t index_ = 0;
  Step step_ = Step::member;
};

}  // namespace lockstep
