// The modules that were loaded with the program: they stay as long as the process, so their memory may be read at any time.
//
// Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_CAPTURE_LASTING_MODULES_H_
#define HOLDFAST_SAMPLER_CAPTURE_LASTING_MODULES_H_

struct link_map;

namespace holdfast {

// Call once, before the program can have loaded anything itself.
void NoteLastingModules();
// Whether the module was loaded then. False if that is not known; any pointer is allowed.
bool IsLasting(const link_map* map);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_LASTING_MODULES_H_
