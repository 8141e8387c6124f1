// A plugin in C++, built twice with different FUNCTIONs. The first one brings libstdc++, which stays loaded.
#include <new>
#include <stdexcept>
#include <string>

#include "known.h"

extern "C" KNOWN void* FUNCTION(size_t size) { return ::operator new(size); }
extern "C" void Release(void* p) { ::operator delete(p); }
extern "C" void* Allocate(size_t size) {
  void* p = FUNCTION(size);
  Use(p);
  return p;
}
// Exceptions cross the plugin's own frames, with what its runtime allocates for them.
extern "C" int Throw(int depth) {
  try {
    if (depth > 0) return Throw(depth - 1) + 1;
    throw std::runtime_error(std::string(200, 'x'));
  } catch (const std::runtime_error& e) {
    if (depth > 0) throw;
    return static_cast<int>(std::string(e.what()).size());
  }
}
