// Floating-point arithmetic of our own in the program's thread. The program may have enabled exceptions (feenableexcept):
// our roundings would end it with SIGFPE. It may read the flags (fetestexcept): ours would be among them. It may have
// changed how results are rounded. Costs about 10 instructions, so only slow paths have one, around their arithmetic.
//
//     const OwnFloats floats;
//     gap = DrawGap(interval, &random);
#ifndef HOLDFAST_SAMPLER_HOT_PATH_OWN_FLOATS_H_
#define HOLDFAST_SAMPLER_HOT_PATH_OWN_FLOATS_H_

#include "sampler/arch/processor.h"

namespace holdfast {

// May be nested. In a signal handler, too: the kernel restores what it interrupted.
class OwnFloats {
 public:
  OwnFloats() : programs_(FloatState()) { SetFloatState(kUsualFloatState); }
  ~OwnFloats() { SetFloatState(programs_); }
  OwnFloats(const OwnFloats&) = delete;
  OwnFloats& operator=(const OwnFloats&) = delete;

 private:
  const uint64_t programs_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_OWN_FLOATS_H_
