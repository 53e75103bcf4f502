// refused: passing 'lockstep::nn::Parameter' as 'this' argument discards qualifiers
// refused: no viable overloaded '='
#include <lockstep/lockstep.h>

lockstep::nn::Parameter made();

void assign(const lockstep::nn::Parameter& other) { made() = other; }
