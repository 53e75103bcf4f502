// refused: the module is a DataParallel already
#include <lockstep/lockstep.h>

void wrap(lockstep::DataParallel<lockstep::nn::Linear> model) {
  lockstep::DataParallel<lockstep::DataParallel<lockstep::nn::Linear>> twice(std::move(model));
}
