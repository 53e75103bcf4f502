// refused: a module is not copied unasked: give it with std::move(module), or a copy with lockstep::copy(module)
#include <lockstep/lockstep.h>

void wrap(const lockstep::nn::Linear& net) {
  lockstep::DataParallel<lockstep::nn::Linear> model(net, {.device_ids = {0, 1}});
}
