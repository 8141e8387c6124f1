// Puts the frames back that tail calls took from the stacks of a profile.
//
//     void slow_flush() {                       the stack            put back
//       std::lock_guard lock(mutex);            pthread_mutex_unlock
//       …                                                            slow_flush      ends in `jmp pthread_mutex_unlock`
//     }                                         worker
//
// The call before each return address names its target (tail_ways.h). Where that is not the function of the next inner
// frame, or at the leaf not a function that the library wraps, the way from one to the other is put in between, as far as
// there is only one. What a wrapped function is inside, or calls back, is no way: nothing is put in there.
//
// Such a location has the address of the jump's last byte, as if it were a call; the function's where several jumps lead
// on. It is marked by is_tail_call, not by its names: they merge with those of the function's own frames in every tool.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_TAIL_CALLS_H_
#define HOLDFAST_REPORT_SYMBOLIZE_TAIL_CALLS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"
#include "report/symbolize/module_symbolizer.h"

namespace holdfast {

// Adds the locations, the last ones then, to the stacks of samples and of `lock stack` comments; they have no names yet.
// Only in profiles that Holdfast wrote, whose addresses are those of calls. Twice is once. `by_dwarf`: see tail_ways.h;
// takes longer, and the answer may then depend on what was read in time. Of the locations that were added, those of functions
// that left by a pointer: after them functions may be missing.
std::vector<uint32_t> AddTailCalls(Profile* profile, ModuleSymbolizer& symbolizer, bool by_dwarf);

// Whether the library wraps a function of this name, so that a sample of this kind may begin in it.
bool IsWrappedAllocation(std::string_view name);
bool IsWrappedMapping(std::string_view name);
bool IsWrappedWait(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_TAIL_CALLS_H_
