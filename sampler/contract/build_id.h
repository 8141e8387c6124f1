// The build id of an object, in its notes: in memory, or as read from its file. A note has the sizes of its name and
// value, a type, the name and the value. Both are padded.
//
// No system call; the caller has made sure that the notes can be read.
#ifndef HOLDFAST_SAMPLER_CONTRACT_BUILD_ID_H_
#define HOLDFAST_SAMPLER_CONTRACT_BUILD_ID_H_

#include <elf.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

namespace holdfast {

struct BuildId {
  const uint8_t* bytes = nullptr;
  size_t count = 0;
};

// `alignment`: of names and values, at least 1. An empty id: the notes have none, or end within a note.
inline BuildId FindBuildId(const void* notes, uint64_t bytes, uint64_t alignment = 4) {
  const auto* text = static_cast<const uint8_t*>(notes);
  const auto padded = [alignment](uint64_t size) { return (size + alignment - 1) / alignment * alignment; };
  for (uint64_t at = 0; at <= bytes && bytes - at >= sizeof(Elf64_Nhdr);) {
    Elf64_Nhdr note;
    memcpy(&note, text + at, sizeof note);
    const uint64_t name = at + sizeof note, value = padded(name + note.n_namesz);
    if (value > bytes || note.n_descsz > bytes - value) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(text + name, "GNU", 4) == 0)
      return {text + value, note.n_descsz};
    at = padded(value + note.n_descsz);
  }
  return {};
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_BUILD_ID_H_
