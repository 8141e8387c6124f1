#include "interpose/base/readiness.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit size_t hot_size_limit = 0;
constinit bool owns_malloc = false;
void (*others_free)(void*) = nullptr;
constinit bool clock_is_interposed = false;
constinit bool loaded_late = false;
constinit bool is_constructed = false;
constinit bool passes_through = false;

}  // namespace holdfast
