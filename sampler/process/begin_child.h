// What a child of fork forgets.
#ifndef HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_
#define HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_

namespace holdfast {

// The program is the same, but all that was recorded belongs to the parent: the child begins its own, empty profile. Nothing
// to wait for: other threads of the parent are not here, whatever they were doing. Called once, by enter.cc.
// `forked_pid`: whose memory this is; 0: the calling process's.
void BeginChild(int forked_pid);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_BEGIN_CHILD_H_
