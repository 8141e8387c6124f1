// 64 bytes at a fixed distance from the thread pointer.
static __thread long words[8] __attribute__((tls_model("initial-exec")));

long Touch(void) { return ++words[0]; }
