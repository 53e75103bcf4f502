// refused: no match for 'operator==' (operand types are 'const lockstep::Tensor' and 'const lockstep::Tensor')
// refused: invalid operands to binary expression ('const lockstep::Tensor' and 'const lockstep::Tensor')
#include <vector>

#include <lockstep/tensor/tensors_in.h>

class Batch {
 public:
  explicit Batch(int rows);
  bool operator==(const Batch&) const = default;  // declared, but cannot be called

 private:
  std::vector<lockstep::Tensor> columns_;
};

void look_into(Batch& batch) {
  lockstep::for_each_tensor(batch, lockstep::MemberPath(), [](const lockstep::MemberPath&, lockstep::Tensor&) {});
}
