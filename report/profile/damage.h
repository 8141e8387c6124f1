// The exception that the pprof reader throws for a damaged file. DecodePprof catches it and returns an error that names
// the file.
#ifndef HOLDFAST_REPORT_PROFILE_DAMAGE_H_
#define HOLDFAST_REPORT_PROFILE_DAMAGE_H_

#include <protozero/exception.hpp>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace holdfast {

struct Damage {
  std::string what;
};

template <typename... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Damage{fmt::format(format, std::forward<Args>(args)...)};
}

// Replaces protozero's own texts, which name its classes.
inline std::string Explained(const protozero::exception& error) {
  if (dynamic_cast<const protozero::unknown_pbf_wire_type_exception*>(&error) != nullptr)
    return "a field of unknown type";
  if (dynamic_cast<const protozero::varint_too_long_exception*>(&error) != nullptr)
    return "a number of more than 10 bytes";
  if (dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr) return "a field extends past the end";
  if (dynamic_cast<const protozero::invalid_tag_exception*>(&error) != nullptr) return "a field has an invalid number";
  if (dynamic_cast<const protozero::invalid_length_exception*>(&error) != nullptr)
    return "a field has an invalid length";
  return "not a protocol buffer";
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_DAMAGE_H_
