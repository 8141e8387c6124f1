#include "sampler/contract/syscalls.h"

namespace holdfast {

constinit std::atomic<bool> no_system_calls{false};
constinit std::atomic<bool> no_clock{false};

}  // namespace holdfast
