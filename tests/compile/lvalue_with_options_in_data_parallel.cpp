// refused: this would copy a module: pass std::move(module), or a copy by lockstep::copy(module)
#include <lockstep/lockstep.h>

void wrap(const lockstep::nn::Linear& net) {
  lockstep::DataParallel<lockstep::nn::Linear> model(net, {.device_ids = {0, 1}});
}
