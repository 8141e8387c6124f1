// fmt has no archive in Debian. This is one: fmt's own headers give all of it as inline functions, which -fkeep-inline-functions
// leaves in this object file under the names that the shared library has. Once here, and not in each file that prints.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
