// refused: a part of an output that is no tensor must be equal in all replicas: give the type an operator==
#include <lockstep/lockstep.h>

struct Choice {
  int expert = 0;
};

void join(const std::vector<Choice>& outputs) { lockstep::gather(outputs, "cpu"); }
