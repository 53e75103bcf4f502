// refused: tensors in this type would be overlooked: give the struct members()
#include <lockstep/lockstep.h>

struct Sample {
  lockstep::Tensor pixels;
  int label = 0;
};

auto batch_of(std::vector<Sample> samples, lockstep::data::SampleIndices indices) {
  return lockstep::data::DefaultCollate()(std::move(samples), indices);
}
