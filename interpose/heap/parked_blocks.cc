#include "interpose/heap/parked_blocks.h"

namespace holdfast {

constinit std::atomic<void*> parked_blocks[kLargestParked / kParkedStep] = {};

}  // namespace holdfast
