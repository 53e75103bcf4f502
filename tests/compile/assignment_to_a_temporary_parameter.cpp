// refused: passing 'lockstep::nn::Parameter' as 'this' argument discards qualifiers
#include <lockstep/nn/parameter.h>

lockstep::nn::Parameter made();

void assign(const lockstep::nn::Parameter& other) { made() = other; }
