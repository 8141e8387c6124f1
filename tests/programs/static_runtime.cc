// Linked with -static-libstdc++ -static-libgcc: its operators new and exceptions are its own.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "known.h"

extern "C" KNOWN void* static_runtime_allocates(size_t size) { return ::operator new(size); }

int main() {
  std::vector<std::string> strings;
  for (int i = 0; i < 1000; ++i) strings.push_back(std::string(static_cast<size_t>(i), 's'));
  size_t length = 0;
  for (const std::string& s : strings) length += s.size();
  int caught = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      throw std::runtime_error(strings[static_cast<size_t>(i)]);
    } catch (const std::exception& e) {
      caught += std::string(e.what()).size() == static_cast<size_t>(i);
    }
  }
  for (size_t i = 0; i < 10; ++i) {
    void* p = static_runtime_allocates(i * 10);
    if (i % 2) ::operator delete(p);
  }
  printf("length %zu, caught %d\n", length, caught);
  printf("any static_runtime_allocates 10 451 5 201\n");  // libstdc++ makes 1 byte of 0
  return 0;
}
