// Memory that libraries allocate on behalf of the program: it belongs to the stacks that requested it.
#include <locale.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>

#include "known.h"

extern "C" {
KNOWN char* through_strdup() { return strdup("a string of thirty characters."); }
KNOWN void through_stdio() {
  FILE* file = fopen("/proc/self/status", "r");
  char* line = nullptr;
  size_t size = 0;
  while (getline(&line, &size, file) > 0) {
  }
  free(line);
  fclose(file);
}
KNOWN std::map<int, std::string>* through_containers() {
  auto* map = new std::map<int, std::string>;
  for (int i = 0; i < 100; ++i) (*map)[i] = std::string(1000, 'm');
  return map;
}
}

int main() {
  for (int i = 0; i < 10; ++i) Use(through_strdup());
  through_stdio();
  Use(through_containers());
  setlocale(LC_ALL, "C.UTF-8");
  return 0;
}
