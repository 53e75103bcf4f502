// refused: tensors in this type would be overlooked: give the struct members()
#include <lockstep/lockstep.h>

struct Output {
  lockstep::Tensor logits;
};

void join(const std::vector<Output>& outputs) { lockstep::gather(outputs, "cpu"); }
