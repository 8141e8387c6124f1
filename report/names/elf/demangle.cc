#include "report/names/elf/demangle.h"

#include <csetjmp>
#include <cstring>

// Otherwise libiberty.h declares basename a second time, with another type.
#define HAVE_DECL_BASENAME 1
#include <libiberty/demangle.h>

namespace holdfast {
namespace {

struct Output {
  jmp_buf too_long;
  size_t size = 0;
  char text[kMaxDemangled];
};

// libiberty calls this with each piece of the name. Only a jump out of this function can stop libiberty; it is C code
// and keeps its state on the stack (alloca), so the jump leaks nothing.
void Append(const char* piece, size_t size, void* opaque) {
  Output* output = static_cast<Output*>(opaque);
  if (size == 0) return;  // `piece` is then null
  if (size > sizeof(output->text) - output->size) longjmp(output->too_long, 1);
  std::memcpy(output->text + output->size, piece, size);
  output->size += size;
}

using Demangler = int (*)(const char*, int, demangle_callbackref, void*);

// No object with a destructor may be here, because the jump would skip the destructor.
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
  // Try Rust first: its legacy form is an Itanium name with a hash at its end.
  if (DemangleWith(rust_demangle_callback, terminated.c_str(), &output) ||
      (itanium && DemangleWith(cplus_demangle_v3_callback, terminated.c_str(), &output))) {
    return std::string(output.text, output.size);
  }
  return {};
}

}  // namespace holdfast
