// Every form of operator new and delete. A failing new throws bad_alloc after its handler ran.
#include <stdlib.h>

#include <cstdint>
#include <new>

#include "known.h"

struct alignas(64) Wide {
  char bytes[64];
};
struct Counted {  // its array form stores a count before the elements: `new Counted[n]` asks for 8 bytes more
  ~Counted() { Use(this); }
  char bytes[24];
};

namespace {
volatile size_t huge = PTRDIFF_MAX;
int handler_calls = 0;
int g_handler_limit = 3;
void Handler() {
  if (++handler_calls == g_handler_limit) std::set_new_handler(nullptr);
}
}  // namespace

extern "C" {
KNOWN void* plain_new() { return ::operator new(100); }
KNOWN void* array_new() { return ::operator new[](200); }
KNOWN void* nothrow_new() { return ::operator new(300, std::nothrow); }
KNOWN void* nothrow_array_new() { return ::operator new[](400, std::nothrow); }
KNOWN void* aligned_new() { return ::operator new(500, std::align_val_t(128)); }
KNOWN void* aligned_array_new() { return ::operator new[](600, std::align_val_t(256)); }
KNOWN void* aligned_nothrow_new() { return ::operator new(700, std::align_val_t(512), std::nothrow); }
KNOWN void* aligned_nothrow_array_new() { return ::operator new[](800, std::align_val_t(1024), std::nothrow); }
KNOWN Wide* expression_new() { return new Wide; }
KNOWN Counted* expression_array_new() { return new Counted[10]; }
KNOWN void* new_of_zero() { return ::operator new(0); }
KNOWN void* failing_new() { return ::operator new(huge); }
KNOWN void* failing_aligned_new() { return ::operator new(huge - 1024, std::align_val_t(64)); }
KNOWN void* failing_nothrow_new() { return ::operator new(huge, std::nothrow); }
KNOWN void* kept_new() { return ::operator new(64); }
}

template <typename F>
static void Fails(const char* what, F f) {
  handler_calls = 0;
  std::set_new_handler(Handler);
  const char* how = "returned a block";
  try {
    if (!f()) how = "returned null";
  } catch (const std::bad_alloc&) {
    how = "threw bad_alloc";
  }
  std::set_new_handler(nullptr);
  printf("%s: %s after %d calls of the handler\n", what, how, handler_calls);
}

static bool Aligned(void* p, uintptr_t alignment) { return reinterpret_cast<uintptr_t>(p) % alignment == 0; }

int main() {
  for (int i = 0; i < 10; ++i) {
    void* p = plain_new();
    if (i % 2)
      ::operator delete(p);
    else
      ::operator delete (p, size_t{100});
    p = array_new();
    if (i % 2)
      ::operator delete[](p);
    else
      ::operator delete[](p, size_t{200});
    ::operator delete(nothrow_new(), std::nothrow);
    ::operator delete[](nothrow_array_new(), std::nothrow);
    p = aligned_new();
    if (!Aligned(p, 128)) puts("aligned_new is not aligned");
    if (i % 2)
      ::operator delete(p, std::align_val_t(128));
    else
      ::operator delete (p, size_t{500}, std::align_val_t(128));
    p = aligned_array_new();
    if (!Aligned(p, 256)) puts("aligned_array_new is not aligned");
    if (i % 2)
      ::operator delete[](p, std::align_val_t(256));
    else
      ::operator delete[](p, size_t{600}, std::align_val_t(256));
    p = aligned_nothrow_new();
    if (!Aligned(p, 512)) puts("aligned_nothrow_new is not aligned");
    ::operator delete(p, std::align_val_t(512), std::nothrow);
    p = aligned_nothrow_array_new();
    if (!Aligned(p, 1024)) puts("aligned_nothrow_array_new is not aligned");
    ::operator delete[](p, std::align_val_t(1024), std::nothrow);
    delete expression_new();
    delete[] expression_array_new();
    Use(kept_new());
  }
  ::operator delete(nullptr);
  printf("operator new(0): %s\n", new_of_zero() ? "a block" : "null");
  Fails("failing new", failing_new);
  Fails("failing aligned new", failing_aligned_new);
  Fails("failing nothrow new", failing_nothrow_new);

  Expect("plain_new", 10, 1000, 0, 0);
  Expect("array_new", 10, 2000, 0, 0);
  Expect("nothrow_new", 10, 3000, 0, 0);
  Expect("nothrow_array_new", 10, 4000, 0, 0);
  Expect("aligned_new", 10, 5000, 0, 0);
  Expect("aligned_array_new", 10, 6000, 0, 0);
  Expect("aligned_nothrow_new", 10, 7000, 0, 0);
  Expect("aligned_nothrow_array_new", 10, 8000, 0, 0);
  Expect("expression_new", 10, 640, 0, 0);
  Expect("expression_array_new", 10, 2480, 0, 0);
  Expect("kept_new", 10, 640, 10, 640);
  Expect("new_of_zero", 1, 0, 1, 0);
  Expect("failing_new", 0, 0, 0, 0);
  Expect("failing_aligned_new", 0, 0, 0, 0);
  Expect("failing_nothrow_new", 0, 0, 0, 0);
  return 0;
}
