// The end of a call that `holdfast attach` makes in a borrowed thread. The memory of the call has the thread's code and stack,
// so code elsewhere must unmap it: this one. Otherwise the tool would stop the thread four times more.
#ifndef HOLDFAST_INTERPOSE_PROCESS_CALL_END_H_
#define HOLDFAST_INTERPOSE_PROCESS_CALL_END_H_

namespace holdfast {

// Where the thread goes instead of returning: AttachCall::end. Null: this processor has none.
using CallEndFunction = void (*)();
CallEndFunction CallEndCode();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_CALL_END_H_
