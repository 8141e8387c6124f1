// Preloaded: a strlen that overwrites all vector registers and masks, as any function may. The library calls it for a block
// with a text.
#include <stddef.h>

size_t strlen(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  if (__builtin_cpu_supports("avx512f"))
    __asm__ volatile(
        "vpternlogd $255,%%zmm0,%%zmm0,%%zmm0\nvmovaps %%zmm0,%%zmm5\nvmovaps %%zmm0,%%zmm31\nkxnorw %%k5,%%k5,%%k5\n" ::
            : "memory");
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall" ::: "memory");
  return length;
}
