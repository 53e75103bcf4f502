#include <lockstep/core/rethrow.h>

#include <stdexcept>
#include <type_traits>
#include <typeinfo>

#include <lockstep/core/error.h>

#include "core/text.h"

namespace lockstep::detail {
namespace {

template <class... Types>
void throw_if_exactly(const std::exception& error, const std::string& where) {
  const auto try_type = [&]<class T>(std::type_identity<T>) {
    if (typeid(error) == typeid(T)) throw T(text(error.what(), " (", where, ")"));
  };
  (try_type(std::type_identity<Types>()), ...);
}

}  // namespace

void rethrow_with_context(const std::string& where) {
  try {
    throw;
  } catch (Error& error) {
    error.add_context(where);
    throw;
  } catch (const std::exception& error) {
    throw_if_exactly<std::runtime_error, std::range_error, std::overflow_error, std::underflow_error, std::logic_error,
                     std::invalid_argument, std::domain_error, std::length_error, std::out_of_range>(error, where);
    throw;
  }
}

std::exception_ptr with_context(const std::exception_ptr& failure, const std::string& where) try {
  try {
    std::rethrow_exception(failure);
  } catch (...) {
    rethrow_with_context(where);
  }
} catch (...) {
  return std::current_exception();
}

}  // namespace lockstep::detail
