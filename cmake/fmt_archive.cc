// Debian has no archive of fmt, so this file makes one. fmt's headers define everything as inline functions;
// -fkeep-inline-functions keeps them in this object file under the names that the shared library has. They are compiled
// only once, not in each file that prints.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
