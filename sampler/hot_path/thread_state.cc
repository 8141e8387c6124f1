#include "sampler/hot_path/thread_state.h"

namespace holdfast {

__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};

}  // namespace holdfast
