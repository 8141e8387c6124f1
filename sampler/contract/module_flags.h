// The bits of Module::unloaded. For the target and its readers; no state.
#ifndef HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_
#define HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_

#include <cstdint>

namespace holdfast {

inline constexpr uint32_t kModuleUnloaded = 1;
// The module's calls of free do not reach the library, so the frees of its blocks are not seen:
// sampler/stacks/free_calls.h.
inline constexpr uint32_t kModuleFreesElsewhere = 2;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_MODULE_FLAGS_H_
