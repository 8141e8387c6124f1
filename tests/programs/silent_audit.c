// For LD_AUDIT: takes part in everything that the dynamic linker does, and has thread-local data of its own, which leaves
// less of the static block to others.
#include <stdint.h>

__thread char taken[512] __attribute__((tls_model("initial-exec")));

unsigned int la_version(unsigned int version) { return taken[0] == 0 ? version : 0; }
