// glibc's oldest version nodes of a processor. x86-64 has had glibc since 2.2.5; arm64 since 2.17, which is therefore the node
// of everything older. A name with two nodes on x86-64 may have one on arm64: pthread_cond_* (interpose/base/wrapped.inc).
#ifndef HOLDFAST_INTERPOSE_BASE_GLIBC_NODES_H_
#define HOLDFAST_INTERPOSE_BASE_GLIBC_NODES_H_

#if defined(__x86_64__)
#define HOLDFAST_GLIBC_2_2_5 "GLIBC_2.2.5"
#define HOLDFAST_GLIBC_2_3_2 "GLIBC_2.3.2"
#define HOLDFAST_GLIBC_2_3_3 "GLIBC_2.3.3"
#define HOLDFAST_GLIBC_2_10 "GLIBC_2.10"
#define HOLDFAST_GLIBC_2_12 "GLIBC_2.12"
#define HOLDFAST_HAS_OLDER_CONDITIONS 1  // pthread_cond_*@GLIBC_2.2.5: another type
#define HOLDFAST_HAS_OLDER_TIMERS 1      // timer_create@GLIBC_2.2.5: the same
#else
#define HOLDFAST_GLIBC_2_2_5 "GLIBC_2.17"
#define HOLDFAST_GLIBC_2_3_2 "GLIBC_2.17"
#define HOLDFAST_GLIBC_2_3_3 "GLIBC_2.17"
#define HOLDFAST_GLIBC_2_10 "GLIBC_2.17"
#define HOLDFAST_GLIBC_2_12 "GLIBC_2.17"
#define HOLDFAST_HAS_OLDER_CONDITIONS 0
#define HOLDFAST_HAS_OLDER_TIMERS 0
#endif

#endif  // HOLDFAST_INTERPOSE_BASE_GLIBC_NODES_H_
