// Restores the frames that tail calls removed from the stacks of a profile.
//
//    void slow_flush() {                       the stack            restored
//       std::lock_guard lock(mutex);            pthread_mutex_unlock
//       …                                                            slow_flush      ends in `jmp pthread_mutex_unlock`
//     }                                         worker
//
// The call before each return address names its target (tail_ways.h). If the target is not the function of the next
// inner frame, the path from the target to that function is inserted, up to where it is ambiguous. At the leaf the path
// must end at a function that the library wraps. Nothing is inserted for functions that a wrapped function calls
// internally or calls back.
//
// An inserted location has the address of the jump's last byte, as if the jump were a call; or the function's address
// if several jumps are possible. The mark is is_tail_call and not the name, so that all tools merge it with the
// function's other frames.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_CALLS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_CALLS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "report/names/symbolize/module_symbolizer.h"
#include "report/profile/profile.h"

namespace holdfast {

// Adds the locations, at the end of the list, to the stacks of samples and of the records of locks. They have no names
// yet. Affects only profiles that Holdfast wrote, because only their addresses are those of calls. A second call
// changes nothing. `by_dwarf`: see tail_ways.h; slower, and the result may then depend on what was read in time.
// Returns the added locations of functions that left through a pointer: functions may be missing after them.
std::vector<uint32_t> AddTailCalls(Profile* profile, ModuleSymbolizer& symbolizer, bool by_dwarf);

// Returns whether the library wraps a function of this name, so that a sample of this kind may begin there.
bool IsWrappedAllocation(std::string_view name);
bool IsWrappedMapping(std::string_view name);
bool IsWrappedWait(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_CALLS_H_
