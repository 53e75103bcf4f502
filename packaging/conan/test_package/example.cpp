#include <lockstep/lockstep.h>

int main() {
  const lockstep::Tensor sum = lockstep::ones({2, 3}) + lockstep::ones({2, 3});
  lockstep::print("{}\n", sum);
  return sum.to_vector<float>()[5] == 2 ? 0 : 1;
}
