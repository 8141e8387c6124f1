#include "sampler/hot_path/thread_state.h"

#include "sampler/hot_path/this_thread.h"

namespace holdfast {

__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};
HOLDFAST_HOT_DATA constinit intptr_t countdown_offset = kUnusedWord;

}  // namespace holdfast
