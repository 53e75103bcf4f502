#include <lockstep/core/path.h>

namespace lockstep {

std::string MemberPath::str() const {
  const std::string own = step_ == Step::index ? std::to_string(index_) : std::string(name_);
  if (!parent_) return own;
  const std::string above = parent_->str();
  return above.empty() ? own : above + "." + own;
}

std::string MemberPath::expression() const {
  const std::string name(name_);
  if (!parent_) return name;
  const std::string above = parent_->expression();
  switch (step_) {
    case Step::member: return above + "." + name;
    case Step::index: return above + "[" + std::to_string(index_) + "]";
    case Step::text_key: return above + "[\"" + name + "\"]";
    case Step::number_key: return above + "[" + name + "]";
    case Step::other_key: return above + "[...]";
  }
  return above;
}

}  // namespace lockstep
