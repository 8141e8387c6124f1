#ifndef HOLDFAST_TESTS_PROGRAMS_OPERATOR_LIBRARY_H_
#define HOLDFAST_TESTS_PROGRAMS_OPERATOR_LIBRARY_H_

#include <stddef.h>

#include "known.h"

struct TooLarge {};
inline constexpr size_t kLargest = 1 << 20;
extern bool creates_thread;

#endif  // HOLDFAST_TESTS_PROGRAMS_OPERATOR_LIBRARY_H_
