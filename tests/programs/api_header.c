/* Uses all of include/holdfast.h. Compiled as C89 and C++98 with every warning as an error. */
#include <holdfast.h>

void all_of_it(void);
void all_of_it(void) {
  struct holdfast_wait wait;
  holdfast_set_labels(holdfast_label("key", "value"));
  holdfast_snapshot();
  holdfast_alloc(&wait, sizeof wait);
  holdfast_free(&wait);
  holdfast_lock_wait(&wait, &wait);
  holdfast_lock_wait_end(&wait, 1);
  holdfast_lock_release(&wait);
}
