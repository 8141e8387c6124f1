// A table made by hand from sampler/contract/layout.h, for tests of what reads tables; shares no code with what writes them.
//
//     MadeTable table;
//     const Offset stack = table.AddStack({0x1000, 0x2000});
//     table.AddHeapRow(stack, 100, /*allocations=*/3, /*frees=*/1);
//     ReadSnapshot(table.bytes(), table.size(), 0);
#ifndef HOLDFAST_TESTS_UNIT_MADE_TABLE_H_
#define HOLDFAST_TESTS_UNIT_MADE_TABLE_H_

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sampler/contract/layout.h"
#include "sampler/contract/weight.h"

namespace holdfast::testing {

class MadeTable {
 public:
  explicit MadeTable(uint64_t capacity = 1 << 20)
      : capacity_(capacity / 64 * 64), memory_(static_cast<char*>(aligned_alloc(64, capacity_))) {
    memset(static_cast<void*>(memory_.get()), 0, capacity_);
    TableHeader& head = this->head();
    head.magic = kTableMagic;
    head.version = kLayoutVersion;
    head.header_bytes = sizeof(TableHeader);
    head.cap_bytes = capacity_;
    head.used = sizeof(TableHeader) / kUnit;
    head.backed = static_cast<uint32_t>(capacity_ / kUnit);
    head.pid = 4242;
    head.profiles = 7;
    head.heap_interval_count = 1;
    head.heap_intervals[0] = {0, 1};
    head.lock_interval_count = 1;
    head.lock_intervals[0] = {0, 1};
    strcpy(head.program, "made");
  }

  TableHeader& head() { return *reinterpret_cast<TableHeader*>(memory_.get()); }
  const char* bytes() const { return memory_.get(); }
  size_t capacity() const { return capacity_; }
  size_t size() { return head().used * uint64_t{kUnit}; }

  template <typename T>
  T& At(Offset offset) {
    return *reinterpret_cast<T*>(memory_.get() + uint64_t{offset} * kUnit);
  }

  Offset Allocate(uint64_t bytes) {
    const Offset offset = head().used;
    head().used = offset + static_cast<uint32_t>((bytes + kUnit - 1) / kUnit);
    if (size() > capacity_) abort();
    return offset;
  }

  // Frames leaf first. Published in the lists of the header.
  Offset AddStack(const std::vector<TaggedPc>& frames, bool truncated = false) {
    const Offset offset = MakeStack(frames, truncated);
    auto& list = head().stack_lists[stacks_++ % kStackLists];
    At<Stack>(offset).next = list;
    list = offset;
    return offset;
  }

  // As AddStack, but in no list: for the overflow stack.
  Offset MakeStack(const std::vector<TaggedPc>& frames, bool truncated = false) {
    Offset parent = 0;
    size_t left = frames.size();
    for (; left > kNodeFrames; left -= kNodeFrames) {
      const auto begin = frames.begin() + static_cast<ptrdiff_t>(left - kNodeFrames);
      Offset& node = nodes_[{parent, {begin, begin + kNodeFrames}}];
      if (node == 0) {
        node = Allocate(sizeof(Node));
        At<Node>(node).parent = parent;
        std::copy_n(begin, kNodeFrames, At<Node>(node).frames);
      }
      parent = node;
    }
    const Offset offset = Allocate(sizeof(Stack) + left * sizeof(TaggedPc));
    Stack& stack = At<Stack>(offset);
    stack.parent = parent;
    stack.depth = static_cast<uint16_t>(frames.size());
    stack.count = static_cast<uint8_t>(left);
    stack.truncated = truncated;
    std::copy_n(frames.begin(), left, stack.frames);
    return offset;
  }

  // "kind\0write\0": the innermost frame of a stack that has these labels.
  TaggedPc AddLabels(const std::string& text) {
    const Offset offset = Allocate(sizeof(LabelSet) + text.size());
    At<LabelSet>(offset).bytes = static_cast<uint16_t>(text.size());
    memcpy(At<LabelSet>(offset).text, text.data(), text.size());
    return kLabelMark | offset;
  }

  Offset AddRow(Offset stack, ProfileKind profile, WaitKind wait, int size_class, std::vector<uint64_t> sums) {
    const Offset offset = Allocate(sizeof(Row));
    Row& row = At<Row>(offset);
    row.profile = profile;
    row.wait = wait;
    row.size_class = static_cast<uint16_t>(size_class);
    for (size_t i = 0; i < sums.size(); ++i) row.sums[i] = sums[i];
    row.next = At<Stack>(stack).rows;
    At<Stack>(stack).rows = offset;
    return offset;
  }

  Offset AddHeapRow(Offset stack, uint64_t bytes, uint64_t allocations, uint64_t frees) {
    return AddRow(stack, ProfileKind::kHeap, WaitKind::kNone, SizeClass(bytes),
                  {allocations << kCountFractionBits, allocations * bytes << kAmountFractionBits,
                   frees << kCountFractionBits, frees * bytes << kAmountFractionBits});
  }

  Offset AddModule(const std::string& path, const std::string& build_id, uint64_t start, uint64_t end,
                   std::vector<ModuleSegment> segments, uint16_t tag = 0) {
    const Offset offset =
        Allocate(sizeof(Module) + segments.size() * sizeof(ModuleSegment) + build_id.size() + path.size());
    Module& module = At<Module>(offset);
    module.tag = tag;
    module.segments = static_cast<uint16_t>(segments.size());
    module.start = module.bias = start;
    module.end = end;
    module.build_id_bytes = static_cast<uint16_t>(build_id.size());
    module.path_bytes = static_cast<uint16_t>(path.size());
    char* to = reinterpret_cast<char*>(&module + 1);
    if (!segments.empty()) memcpy(to, segments.data(), segments.size() * sizeof(ModuleSegment));
    memcpy(to + segments.size() * sizeof(ModuleSegment), build_id.data(), build_id.size());
    memcpy(to + segments.size() * sizeof(ModuleSegment) + build_id.size(), path.data(), path.size());
    module.next = head().modules;
    head().modules = offset;
    return offset;
  }

  // As a file, all of it.
  void WriteTo(const std::string& path) const {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, memory_.get(), capacity_) != static_cast<ssize_t>(capacity_)) abort();
    close(fd);
  }

 private:
  struct Free {
    void operator()(char* bytes) const { free(bytes); }
  };
  size_t capacity_;
  std::unique_ptr<char, Free> memory_;
  uint32_t stacks_ = 0;
  std::map<std::pair<Offset, std::vector<TaggedPc>>, Offset> nodes_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_MADE_TABLE_H_
