// Resets a child of fork.
#ifndef HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_
#define HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_

namespace holdfast {

// The program is the same, but everything recorded belongs to the parent: the child begins its own, empty profile.
// Nothing needs to be waited for: the parent's other threads are not here, whatever they were doing. Called once, by
// enter.cc. `forked_pid`: the process that owns this memory; 0: the calling process.
void BeginChild(int forked_pid);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_
