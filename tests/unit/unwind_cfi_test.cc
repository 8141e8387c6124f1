// The row builder against libunwind, which interprets the same tables, for the code of real libraries: both get the
// same made-up registers and the same made-up stack, and have to arrive at the same caller.
#include "sampler/unwind/unwind_cfi.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <libunwind-x86_64.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "sampler/arch/processor.h"
#include "sampler/capture/module_image.h"

extern "C" int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t, unw_word_t, unw_dyn_info_t*, unw_proc_info_t*, int,
                                                  void*);

namespace holdfast {
namespace {

struct Registers {
  uintptr_t pc = 0, sp = 0, fp = 0;
  bool operator==(const Registers&) const = default;
};

constexpr uintptr_t kStackStart = 0x7ffc'0000'0000, kStackEnd = kStackStart + (64 << 20);

// What lies on the made-up stack: another address on it, further up, always a different one.
uintptr_t FakeWord(uintptr_t address) { return address + 0x1000 + (address * 2654435761 >> 12 & 0xff8); }

struct LoadedModule {
  dl_find_object found{};
  ModuleImage image;

  explicit LoadedModule(const void* code) {
    if (_dl_find_object(const_cast<void*>(code), &found) != 0) ADD_FAILURE() << "no module at " << code;
    image = ReadModuleImage(found, HeaderSearch::kMappings);
  }
  uintptr_t header() const { return reinterpret_cast<uintptr_t>(found.dlfo_eh_frame); }
  struct TableRow {
    int32_t start, fde;
  };
  const TableRow* rows() const { return reinterpret_cast<const TableRow*>(header() + 12); }
  uint32_t count() const { return *reinterpret_cast<const uint32_t*>(header() + 8); }
};

// ---- The oracle ----

struct Frame {
  const LoadedModule* module;
  Registers registers;
};

int FindProcInfo(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t* info, int need, void* argument) {
  const LoadedModule& module = *static_cast<Frame*>(argument)->module;
  unw_dyn_info_t table{};
  table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  table.start_ip = reinterpret_cast<unw_word_t>(module.found.dlfo_map_start);
  table.end_ip = reinterpret_cast<unw_word_t>(module.found.dlfo_map_end);
  table.u.rti.segbase = module.header();
  table.u.rti.table_data = module.header() + 12;
  table.u.rti.table_len = module.count() * sizeof(LoadedModule::TableRow) / sizeof(unw_word_t);
  return _Ux86_64_dwarf_search_unwind_table(space, ip, &table, info, need, argument);
}
void PutUnwindInfo(unw_addr_space_t, unw_proc_info_t*, void*) {}
int NoDynamicInfo(unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; }
int AccessMemory(unw_addr_space_t, unw_word_t address, unw_word_t* value, int write, void* argument) {
  const LoadedModule& module = *static_cast<Frame*>(argument)->module;
  if (write) return -UNW_EINVAL;
  if (address >= kStackStart && address < kStackEnd) {
    *value = FakeWord(address);
    return 0;
  }
  if (address >= module.image.readable.start && address + 8 <= module.image.readable.end) {
    memcpy(value, reinterpret_cast<void*>(address), sizeof(*value));
    return 0;
  }
  return -UNW_EINVAL;
}
int AccessRegister(unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write, void* argument) {
  const Registers& registers = static_cast<Frame*>(argument)->registers;
  if (write) return -UNW_EINVAL;
  switch (number) {
    case UNW_X86_64_RIP:
      *value = registers.pc;
      return 0;
    case UNW_X86_64_RSP:
      *value = registers.sp;
      return 0;
    case UNW_X86_64_RBP:
      *value = registers.fp;
      return 0;
    default:
      return -UNW_EBADREG;
  }
}
int NoFloat(unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) { return -UNW_EBADREG; }
int NoResume(unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; }
int NoName(unw_addr_space_t, unw_word_t, char*, size_t, unw_word_t*, void*) { return -UNW_ENOINFO; }

enum class Outcome { kCaller, kEnd, kCannot };

Outcome OracleStep(const LoadedModule& module, const Registers& from, Registers* caller) {
  static unw_accessors_t accessors = {FindProcInfo,   PutUnwindInfo, NoDynamicInfo, AccessMemory,
                                      AccessRegister, NoFloat,       NoResume,      NoName};
  static const unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
  Frame frame{&module, from};
  unw_cursor_t cursor;
  if (unw_init_remote(&cursor, space, &frame) != 0) return Outcome::kCannot;
  const int result = unw_step(&cursor);
  if (result < 0) return Outcome::kCannot;
  if (result == 0) return Outcome::kEnd;
  unw_word_t pc = 0, sp = 0, fp = 0;
  if (unw_get_reg(&cursor, UNW_X86_64_RIP, &pc) != 0 || unw_get_reg(&cursor, UNW_X86_64_RSP, &sp) != 0 ||
      unw_get_reg(&cursor, UNW_X86_64_RBP, &fp) != 0) {
    return Outcome::kCannot;
  }
  *caller = {pc, sp, fp};
  return Outcome::kCaller;
}

// ---- The row, applied to the same frame ----

Outcome RowStep(UnwindRow row, const Registers& from, Registers* caller) {
  if (row.kind() == UnwindRow::kEnd) return Outcome::kEnd;
  if (row.kind() == UnwindRow::kSignal) {
    *caller = {FakeWord(from.sp + kSignalPcOffset), FakeWord(from.sp + kSignalSpOffset),
               FakeWord(from.sp + kSignalFpOffset)};
    return Outcome::kCaller;
  }
  if (row.kind() != UnwindRow::kStep) return Outcome::kCannot;
  uintptr_t cfa = (row.from_fp() ? from.fp : from.sp) + static_cast<uintptr_t>(row.cfa_offset());
  if (row.loaded()) cfa = FakeWord(cfa) + static_cast<uintptr_t>(row.add());
  uintptr_t fp = from.fp;
  if (row.fp_rule() != UnwindRow::kSame) {
    const uintptr_t base = row.fp_rule() == UnwindRow::kAtCfa  ? cfa
                           : row.fp_rule() == UnwindRow::kAtFp ? from.fp
                                                               : from.sp;
    fp = FakeWord(base + static_cast<uintptr_t>(row.fp_offset()));
  }
  *caller = {FakeWord(cfa - 8), cfa, fp};
  return Outcome::kCaller;
}

struct Tally {
  int plain = 0, loaded = 0, signal = 0, end = 0, cannot = 0, wrong = 0;
  int only_ours = 0, only_oracle = 0;  // where the other one gives up
};

void Compare(const LoadedModule& module, uintptr_t pc, Tally* tally) {
  const Registers from{pc, kStackStart + 0x10000, kStackStart + 0x20000};
  const UnwindRow row = BuildUnwindRow(module.found.dlfo_eh_frame, module.image.readable, pc);
  Registers expected, actual;
  const Outcome oracle = OracleStep(module, from, &expected);
  const Outcome ours = RowStep(row, from, &actual);
  switch (row.kind()) {
    case UnwindRow::kStep:
      ++(row.loaded() ? tally->loaded : tally->plain);
      break;
    case UnwindRow::kSignal:
      ++tally->signal;
      break;
    case UnwindRow::kEnd:
      ++tally->end;
      break;
    default:
      ++tally->cannot;
      break;
  }
  if (ours == Outcome::kCannot) {  // gives up: never wrong
    tally->only_oracle += oracle == Outcome::kCaller;
    return;
  }
  if (ours == Outcome::kEnd && oracle != Outcome::kCaller) return;
  if (oracle == Outcome::kCannot) {
    ++tally->only_ours;
    return;
  }
  if (ours == oracle && expected == actual) return;
  if (++tally->wrong < 5) {
    ADD_FAILURE() << module.found.dlfo_link_map->l_name << " + 0x" << std::hex << pc - module.image.bias << ": row "
                  << row.bits << " pc " << actual.pc << " sp " << actual.sp << " fp " << actual.fp << ", oracle "
                  << static_cast<int>(oracle) << " pc " << expected.pc << " sp " << expected.sp << " fp "
                  << expected.fp;
  }
}

Tally Sweep(const void* code) {
  const LoadedModule module(code);
  Tally tally;
  for (uint32_t i = 0; i < module.count(); ++i) {
    const uintptr_t start = module.header() + static_cast<int64_t>(module.rows()[i].start);
    // The length follows the start in the FDE, in the same width (every linker: 4 bytes).
    const uintptr_t fde = module.header() + static_cast<int64_t>(module.rows()[i].fde);
    uint32_t length;
    memcpy(&length, reinterpret_cast<void*>(fde + 12), sizeof(length));
    // Every byte of the prologue, where rules change most, then 32 places up to the last byte.
    for (uint32_t at = 0; at < std::min<uint32_t>(length, 24); ++at) Compare(module, start + at, &tally);
    for (uint32_t at = 24; at < length; at += std::max<uint32_t>(1, length / 32)) Compare(module, start + at, &tally);
    if (length > 24) Compare(module, start + length - 1, &tally);
  }
  printf(
      "%s: %u entries; rows: %d plain, %d loaded, %d signal, %d end, %d cannot; "
      "%d that only we can, %d that only libunwind can; %d wrong\n",
      module.found.dlfo_link_map->l_name[0] != '\0' ? module.found.dlfo_link_map->l_name : "this program",
      module.count(), tally.plain, tally.loaded, tally.signal, tally.end, tally.cannot, tally.only_ours,
      tally.only_oracle, tally.wrong);
  return tally;
}

// Many places of the named library, or skips where it is not installed.
Tally SweepLibrary(const char* name) {
  void* library = dlopen(name, RTLD_LAZY);
  if (library == nullptr) return {};
  const auto* map = static_cast<const link_map*>(library);
  return Sweep(map->l_ld);  // the dynamic section lies inside of the module
}

TEST(UnwindCfi, RowsOfLibcAreWhatLibunwindReads) {
  const Tally tally = SweepLibrary("libc.so.6");
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.plain, 50'000);
  EXPECT_GT(tally.signal, 0);
  EXPECT_GT(tally.end, 0);
}

TEST(UnwindCfi, RowsOfLibstdcxxAreWhatLibunwindReads) {
  const Tally tally = SweepLibrary("libstdc++.so.6");
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.plain, 50'000);
}

TEST(UnwindCfi, RowsOfTheLoaderAreWhatLibunwindReads) { EXPECT_EQ(SweepLibrary("ld-linux-x86-64.so.2").wrong, 0); }

TEST(UnwindCfi, RowsOfThisProgramAreWhatLibunwindReads) {
  EXPECT_EQ(Sweep(reinterpret_cast<void*>(&RowStep)).wrong, 0);
}

// Assembly with unwind tables written by hand, and functions that realign their stack.
TEST(UnwindCfi, RowsOfHandWrittenTablesAreWhatLibunwindReads) {
  for (const char* name : {"libcrypto.so.3", "libm.so.6", "libgcc_s.so.1", "libzstd.so.1", "libgmp.so.10"}) {
    EXPECT_EQ(SweepLibrary(name).wrong, 0) << name;
  }
}

}  // namespace
}  // namespace holdfast
