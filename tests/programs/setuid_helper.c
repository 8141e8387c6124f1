// A setuid program that starts another as root, with its own environment. `setuid_helper PROGRAM…`
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2 || setgid(0) != 0 || setuid(0) != 0) return 98;
  execv(argv[1], argv + 1);
  return 97;
}
