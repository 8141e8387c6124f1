#include "report/elf/demangle.h"

#include <csetjmp>
#include <cstring>

// libiberty.h would declare basename a second time and differently.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace holdfast {
namespace {

struct Output {
  jmp_buf too_long;
  size_t size = 0;
  char text[kMaxDemangled];
};

// libiberty calls this with each piece. It is C, keeps its work on the stack (alloca), and has no other way to be told
// to stop than a jump out of it.
void Append(const char* piece, size_t size, void* opaque) {
  Output* output = static_cast<Output*>(opaque);
  if (size == 0) return;  // with a null piece
  if (size > sizeof(output->text) - output->size) longjmp(output->too_long, 1);
  std::memcpy(output->text + output->size, piece, size);
  output->size += size;
}

using Demangler = int (*)(const char*, int, demangle_callbackref, void*);

// No object with a destructor lives here, as the jump would pass it by.
bool DemangleWith(Demangler demangler, const char* mangled, Output* output) {
  output->size = 0;
  if (setjmp(output->too_long) != 0) return false;
  return demangler(mangled, DMGL_PARAMS | DMGL_ANSI, Append, output) != 0 && output->size != 0;
}

}  // namespace

std::string Demangle(std::string_view mangled) {
  const bool itanium = mangled.starts_with("_Z"), rust = mangled.starts_with("_R");
  if ((!itanium && !rust) || mangled.size() > kMaxMangled) return {};
  const std::string terminated(mangled);
  Output output;
  // Rust's first form is Itanium's with a hash at its end, so Rust is asked first.
  if (DemangleWith(rust_demangle_callback, terminated.c_str(), &output) ||
      (itanium && DemangleWith(cplus_demangle_v3_callback, terminated.c_str(), &output))) {
    return std::string(output.text, output.size);
  }
  return {};
}

}  // namespace holdfast
