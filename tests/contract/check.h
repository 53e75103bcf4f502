// Whether a case keeps the promise: docs/contract.md.
#pragma once

#include <string>

#include "contract/features.h"

namespace lockstep::contract {

/// What is wrong with a case, in words; empty if nothing is. It is compared with the truth, with a second run, and bit
/// for bit with what the documentation calls equal.
std::string fault_of(const Case& given);

/// The case with as few features as still have a fault; they keep the rules.
Case shrunk(const Case& given, const Constraints& rules);

}  // namespace lockstep::contract
