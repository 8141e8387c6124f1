#include "interpose/heap/parked_blocks.h"

namespace holdfast {

constinit std::atomic<uintptr_t> parked_blocks[kLargestParked / kParkedStep] = {};

}  // namespace holdfast
