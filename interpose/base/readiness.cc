#include "interpose/base/readiness.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit size_t hot_size_limit = 0;
constinit bool owns_malloc = false;

}  // namespace holdfast
