// TimeoutError: another thread did not finish its work within a time limit that the user set.
#pragma once

#include <lockstep/core/error.h>

namespace lockstep {

class LOCKSTEP_API TimeoutError : public Error {
 public:
  using Error::Error;
};

}  // namespace lockstep
