// USDT probes: an instruction that does nothing, and a note beside the code (.note.stapsdt) with its address and its
// arguments. A tracer finds the note in the file and puts a breakpoint (uprobe) on the instruction.
//
//   HOLDFAST_PROBE1, HOLDFAST_PROBE3                      one or three words, the first a pointer, in the registers of
//                                                         a function's first arguments
//   HOLDFAST_PROBE1_ANYWHERE, HOLDFAST_PROBE3_ANYWHERE    in any registers, as the note says: costs the nop alone
//
// The note is not loaded into memory, and `strip` keeps it. Its format is that of systemtap's sys/sdt.h, version 3. No
// semaphore: a probe costs the same whether anybody listens or not.
#ifndef HOLDFAST_SAMPLER_ARCH_PROBE_H_
#define HOLDFAST_SAMPLER_ARCH_PROBE_H_

#include "sampler/arch/processor.h"

// `?`: the note is dropped together with the code that it describes. The base section tells a reader how far a
// prelinked file was moved.
#define HOLDFAST_PROBE_TEXT(provider, name, arguments)                    \
  "990: nop\n"                                                            \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
  ".balign 4\n"                                                           \
  ".4byte 992f-991f, 994f-993f, 3\n"                                      \
  "991: .asciz \"stapsdt\"\n"                                             \
  "992: .balign 4\n"                                                      \
  "993: .8byte 990b\n"                                                    \
  ".8byte _.stapsdt.base\n"                                               \
  ".8byte 0\n"                                                            \
  ".asciz \"" provider                                                    \
  "\"\n"                                                                  \
  ".asciz \"" name                                                        \
  "\"\n"                                                                  \
  ".asciz \"" arguments                                                   \
  "\"\n"                                                                  \
  "994: .balign 4\n"                                                      \
  ".popsection\n"                                                         \
  ".ifndef _.stapsdt.base\n"                                              \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n"                                                \
  ".hidden _.stapsdt.base\n"                                              \
  "_.stapsdt.base: .space 1\n"                                            \
  ".size _.stapsdt.base, 1\n"                                             \
  ".popsection\n"                                                         \
  ".endif\n"

#if defined(__x86_64__)
#include "sampler/arch/x86_64/probe_inline.h"
#elif defined(__aarch64__)
#include "sampler/arch/aarch64/probe_inline.h"
#endif

#endif  // HOLDFAST_SAMPLER_ARCH_PROBE_H_
