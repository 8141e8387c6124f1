// Whether scripts/allocators runs the tests: their programs are linked to another allocator than libc's. A test that
// assumes libc's allocator looks here.
#ifndef HOLDFAST_TESTS_SUPPORT_LINKED_PROGRAMS_H_
#define HOLDFAST_TESTS_SUPPORT_LINKED_PROGRAMS_H_

#include <cstdlib>

namespace holdfast::testing {

// The folder of these programs; null: they use libc's allocator.
inline const char* LinkedPrograms() { return getenv("HOLDFAST_TEST_PROGRAMS"); }

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_LINKED_PROGRAMS_H_
