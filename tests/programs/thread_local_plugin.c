// Thread-local data in the static block (as much as a library loaded late may have there), and more that is created at first
// use.
static __thread char in_static_block[100] __attribute__((tls_model("initial-exec")));
static __thread char made_late[100000];

int Touch(void) {
  int sum = 0;
  for (unsigned i = 0; i < sizeof in_static_block; ++i) sum += ++in_static_block[i];
  for (unsigned i = 0; i < sizeof made_late; i += 1000) sum += ++made_late[i];
  return sum;
}
