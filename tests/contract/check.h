// Checks that a case keeps the contract: docs/contract.md.
#pragma once

#include <string>

#include "contract/features.h"

namespace lockstep::contract {

/// Describes the first fault of a case; empty if it has none. Compares it with the truth, with a second run, and bit
/// for bit with the runs that the documentation calls equal.
std::string fault_of(const Case& given);

/// Removes features from a faulty case as long as it keeps the rules and its kind of fault.
Case shrunk(const Case& given, const Constraints& rules);

}  // namespace lockstep::contract
