#include "interpose/base/real.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit Real real{};

}  // namespace holdfast
