#include "sampler/hot_path/sampled_filter.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit SampledFilter sampled_filter{};
constinit std::atomic<uint32_t> other_allocators{kOtherMalloc};

}  // namespace holdfast
