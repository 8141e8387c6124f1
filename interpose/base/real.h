// The real functions: those that the program would call without us (find_functions.h).
#ifndef HOLDFAST_INTERPOSE_BASE_REAL_H_
#define HOLDFAST_INTERPOSE_BASE_REAL_H_

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <threads.h>
#include <time.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

struct alignas(64) Real {
#define HOLDFAST_WRAP(result, name, parameters) result(*name) parameters;
#define HOLDFAST_WRAP_VERSION(result, name, suffix, version, parameters) result(*name##suffix) parameters;
#include "interpose/base/wrapped.inc"
#undef HOLDFAST_WRAP
#define HOLDFAST_USE(result, name, parameters) result(*name) parameters;
#include "interpose/base/used.inc"
#undef HOLDFAST_USE
};
extern HOLDFAST_HIDDEN Real real;

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_REAL_H_
