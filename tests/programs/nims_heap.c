// Has a function that is named like one of Nim's allocator.
__attribute__((noinline)) static int rawAlloc__system_4588(int bytes) { return bytes + 1; }

int main(int count, char** arguments) {
  (void)arguments;
  return rawAlloc__system_4588(count) > 1 ? 0 : 1;
}
