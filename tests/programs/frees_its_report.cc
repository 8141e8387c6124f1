// Holds a page more for each line of input in one function, and frees all of them before it exits. Only libstdc++'s reserve
// for exceptions stays.
#include <cstdio>
#include <string>
#include <vector>

namespace {

[[gnu::noinline]] size_t RenderReport() {
  std::vector<std::string> pages;
  printf("ready\n");
  fflush(stdout);
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') continue;
    pages.emplace_back(2 << 20, 'x');
    printf("done %zu\n", pages.size());
    fflush(stdout);
  }
  return pages.size();
}

}  // namespace

int main() { return RenderReport() > 0 ? 0 : 1; }
