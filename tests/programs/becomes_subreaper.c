// A library with the call that makes a program a subreaper; the program itself has none.
#include <sys/prctl.h>

void BecomeSubreaper(int option) {
  (void)option;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}
