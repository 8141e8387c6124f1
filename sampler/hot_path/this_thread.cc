#include "sampler/hot_path/this_thread.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit intptr_t countdown_offset = kUnusedWord;

}  // namespace holdfast
