// Hundreds of plugins are loaded and unloaded. The exporter reads their names from the files, long after they were
// unloaded.
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class ManyModules : public Profiled {
 protected:
  Decoded Load(const std::string& where, const std::string& count) {
    const RunResult r =
        RunAs(Launch::kPreload, {"many_modules", where, ProgramPath("first_unloaded_plugin.so"), folder(), count},
              {{"heap-interval", "1"}});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_EQ(r.out, "as it was meant\n");
    const std::vector<Decoded> heap = NewestHeap();
    EXPECT_EQ(heap.size(), 1u);
    return heap.empty() ? Decoded{} : heap[0];
  }
};

TEST_F(ManyModules, SixHundredAtOneAddressKeepTheirNames) {
  const Decoded heap = Load("one_place", "600");
  EXPECT_EQ(heap.SumLeaf("first_unloaded_allocates").at("alloc_objects"), 600);
  EXPECT_EQ(heap.Comment("losses"), "none");
}

TEST_F(ManyModules, OneThatIsReloadedAtNewPlacesKeepsItsNames) {
  const Decoded heap = Load("new_places", "1100");
  EXPECT_EQ(heap.SumLeaf("first_unloaded_allocates").at("alloc_objects"), 1100);
  EXPECT_EQ(heap.Comment("losses"), "none");
}

// docs/limitations.md, "Bounds". Each block is there all the same.
TEST_F(ManyModules, BeyondTheBoundTheLaterOnesHaveNoNamesAndAreCounted) {
  const Decoded heap = Load("one_place", "2060");
  EXPECT_EQ(heap.SumLeaf("first_unloaded_allocates").at("alloc_objects"), 2047);
  EXPECT_GE(heap.CommentNumber("lost module-table-full"), 13);
  EXPECT_GE(heap.Total().at("alloc_objects"), 2060);
}

}  // namespace
}  // namespace holdfast::testing
