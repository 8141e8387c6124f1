// An older version node of a wrapped function. A separate function, not an alias: the assembler would rename the
// original along with an alias.
//
//     HOLDFAST_OLD_VERSION(int, sem_wait, 2_2_5, HOLDFAST_GLIBC_2_2_5, (sem_t* semaphore), (semaphore))
//
// for functions with versions that behave alike. ATTRIBUTES (noexcept) follow the parameters in the _NOEXCEPT form.
#ifndef HOLDFAST_INTERPOSE_BASE_OLD_VERSION_H_
#define HOLDFAST_INTERPOSE_BASE_OLD_VERSION_H_

#include "interpose/base/glibc_nodes.h"
#include "sampler/contract/attributes.h"

#define HOLDFAST_OLD_VERSION(result, name, suffix, version, parameters, arguments)                   \
  extern "C" HOLDFAST_EXPORT result holdfast_##name##_##suffix parameters { return name arguments; } \
  asm(".symver holdfast_" #name "_" #suffix "," #name "@" version ",remove")

#endif  // HOLDFAST_INTERPOSE_BASE_OLD_VERSION_H_
