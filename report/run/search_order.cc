#include "report/run/search_order.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

// Returns the address of the dynamic section of the process's executable; 0: there is none.
uint64_t DynamicOfExecutable(pid_t pid, const ProcessMemory& memory) {
  constexpr uint64_t kMaxHeaders = 256;
  const uint64_t headers = AuxiliaryValue(pid, AT_PHDR), count = AuxiliaryValue(pid, AT_PHNUM);
  if (headers == 0 || count > kMaxHeaders) return 0;
  uint64_t bias = 0, dynamic = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Phdr header;
    if (!memory.Read(headers + i * sizeof header, &header, sizeof header)) return 0;
    if (header.p_type == PT_PHDR) bias = headers - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  return dynamic != 0 ? bias + dynamic : 0;
}

}  // namespace

std::vector<uint64_t> ListedObjects(pid_t pid) {
  constexpr size_t kMaxObjects = 8192, kMaxEntries = 512;
  std::vector<uint64_t> listed;
  const ProcessMemory memory(pid);
  uint64_t debug_address = 0;
  if (const uint64_t dynamic = DynamicOfExecutable(pid, memory); dynamic != 0) {
    for (size_t i = 0; i < kMaxEntries; ++i) {
      Elf64_Dyn entry;
      if (!memory.Read(dynamic + i * sizeof entry, &entry, sizeof entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_DEBUG) debug_address = entry.d_un.d_ptr;
    }
  }
  r_debug debug{};
  if (debug_address == 0 || !memory.Read(debug_address, &debug, sizeof debug)) return listed;
  auto at = reinterpret_cast<uint64_t>(debug.r_map);
  for (link_map map{}; at != 0 && listed.size() < kMaxObjects && memory.Read(at, &map, sizeof map);
       at = reinterpret_cast<uint64_t>(map.l_next))
    listed.push_back(reinterpret_cast<uint64_t>(map.l_ld));
  return listed;
}

uint64_t AuxiliaryValue(pid_t pid, uint64_t type) {
  std::istringstream file(ReadOfProcess(pid, "auxv"));
  Elf64_auxv_t entry;
  while (file.read(reinterpret_cast<char*>(&entry), sizeof entry)) {
    if (entry.a_type == type) return entry.a_un.a_val;
  }
  return 0;
}

void SortBySearch(pid_t pid, std::vector<std::string>* objects) {
  const std::vector<uint64_t> listed = ListedObjects(pid);
  std::map<std::string, size_t> place;
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0, end = 0;
    const size_t path = line.find('/');
    if (path == std::string::npos || sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2) continue;
    for (size_t i = 0; i < listed.size(); ++i) {
      if (listed[i] >= start && listed[i] < end) place.try_emplace(line.substr(path), i);
    }
  }
  if (objects->empty() || !place.contains((*objects)[0])) return;
  const auto place_of = [&place, &listed](const std::string& path) {
    const auto found = place.find(path);
    return found != place.end() ? found->second : listed.size();
  };
  std::stable_sort(objects->begin() + 1, objects->end(),
                   [&](const std::string& a, const std::string& b) { return place_of(a) < place_of(b); });
}

std::string StartedAs(pid_t pid) {
  const uint64_t address = AuxiliaryValue(pid, AT_EXECFN);
  const ProcessMemory memory(pid);
  std::string path;
  for (char c = 0; address != 0 && path.size() < 4096 && memory.Read(address + path.size(), &c, 1) && c != 0;)
    path += c;
  return path;
}

}  // namespace holdfast
