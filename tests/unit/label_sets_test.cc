// Sets of labels: one number for each distinct one, and what a stack of the table has of it.
#include "sampler/table/label_sets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sampler/table/stack_table.h"
#include "tests/unit/anonymous_table.h"

namespace holdfast {
namespace {

// "key=value,…" as in the table.
std::string TextOf(SharedTable* table, TaggedPc frame) {
  if (frame == 0) return "";
  EXPECT_TRUE(IsLabels(frame));
  const auto* set = table->At<LabelSet>(static_cast<Offset>(frame));
  std::string text(set->text, set->bytes);
  bool key = true;
  for (char& c : text) {
    if (c != '\0') continue;
    c = key ? '=' : ',';
    key = !key;
  }
  return text;
}

class LabelSets : public ::testing::Test {
 protected:
  LabelSets() {
    ForgetLabelFrames();
    EXPECT_TRUE(MakeSpecialStacks(table_));
  }
  std::string Text(uint16_t set) { return TextOf(table_, LabelFrame(table_, set)); }

  SharedTable* table_ = UseAnonymousTable();
};

TEST_F(LabelSets, AreTheSameInWhateverOrderTheyAreSet) {
  const uint16_t tenant = WithLabel(0, "tenant", "acme"), kind = WithLabel(0, "kind", "write");
  const uint16_t both = WithLabel(tenant, "kind", "write");
  EXPECT_EQ(WithLabel(kind, "tenant", "acme"), both);
  EXPECT_EQ(Text(both), "kind=write,tenant=acme,");
  EXPECT_EQ(WithLabel(both, "kind", nullptr), tenant);
  EXPECT_EQ(WithLabel(both, "kind", ""), tenant);
  EXPECT_EQ(WithLabel(tenant, "tenant", nullptr), 0);
  EXPECT_EQ(WithLabel(both, "kind", "write"), both);
  EXPECT_EQ(WithLabel(both, "zone", nullptr), both);
  EXPECT_NE(WithLabel(both, "kind", "read"), both);
  EXPECT_EQ(Text(WithLabel(WithLabel(both, "a", "1"), "z", "2")), "a=1,kind=write,tenant=acme,z=2,");
}

// One name is a prefix of another, and one has a byte with the highest bit set.
TEST_F(LabelSets, KeysAreComparedInFull) {
  uint16_t set = 0;
  for (const char* key : {"ab", "a", "abc", "\xc3\xa4", "b"}) set = WithLabel(set, key, key);
  EXPECT_EQ(Text(set), "a=a,ab=ab,abc=abc,b=b,\xc3\xa4=\xc3\xa4,");
  EXPECT_EQ(WithLabel(set, "ab", "ab"), set);
}

TEST_F(LabelSets, LongTextIsCutBetweenCharacters) {
  const std::string x(kMaxLabelValue - 1, 'x');
  EXPECT_EQ(Text(WithLabel(0, "k", (x + "yz").c_str())), "k=" + x + "y,");
  EXPECT_EQ(Text(WithLabel(0, "k", (x + "\xc3\xa4").c_str())), "k=" + x + ",");
  const std::string key(kMaxLabelKey + 5, 'k');
  EXPECT_EQ(WithLabel(0, key.c_str(), "v"), WithLabel(0, key.substr(0, kMaxLabelKey).c_str(), "v"));
  // Nothing but bytes that go on with a character: no key.
  EXPECT_EQ(WithLabel(0, std::string(100, '\x80').c_str(), "v"), 0);
}

TEST_F(LabelSets, ASetThatIsTooLargeSaysSoAndIsCounted) {
  const std::string value(120, 'v');
  uint16_t set = 0;
  for (const char* key : {"a", "b", "c", "d"}) set = WithLabel(set, key, value.c_str());
  EXPECT_EQ(Text(WithLabel(set, "e", value.c_str())), Text(set) + "e=[overflow],");
  EXPECT_EQ(table_->header()->losses[static_cast<int>(Loss::kLabelsFull)], 1u);
  // Another value of the same label has room.
  EXPECT_EQ(Text(WithLabel(set, "d", "short")).size(), Text(set).size() - 115);
}

TEST_F(LabelSets, AnInvalidNumberIsRecognized) {
  const uint16_t set = WithLabel(0, "some", "label");
  EXPECT_TRUE(IsLabelSet(0));
  EXPECT_TRUE(IsLabelSet(set));
  EXPECT_FALSE(IsLabelSet(kMaxLabelSets));
  EXPECT_FALSE(IsLabelSet(UINT32_MAX));
  EXPECT_FALSE(IsLabelSet(65536u + set));
}

TEST_F(LabelSets, AnotherTableHasRecordsOfItsOwn) {
  const uint16_t set = WithLabel(0, "tenant", "acme");
  LabelFrame(table_, set);
  table_ = UseAnonymousTable();
  ForgetLabelFrames();
  EXPECT_EQ(Text(set), "tenant=acme,");
}

// Of any depth: with its labels the innermost node may be full, or one more.
TEST_F(LabelSets, AreTheInnermostFrameOfAStack) {
  const TaggedPc acme = LabelFrame(table_, WithLabel(0, "tenant", "acme"));
  const TaggedPc zenith = LabelFrame(table_, WithLabel(0, "tenant", "zenith"));
  for (uint16_t depth = 1; depth <= 3 * kNodeFrames; ++depth) {
    StackTrace trace{};
    for (trace.depth = 0; trace.depth < depth; ++trace.depth) trace.frames[trace.depth] = trace.depth + 10u;
    static StackPath path;
    path = {};
    for (int i = depth; i > 0; --i) path.Add(trace.frames[i - 1]);
    Stack* const none = InternStack(table_, trace);
    for (const TaggedPc labels : {acme, zenith}) {
      Stack* stack = InternStack(table_, trace, labels);
      EXPECT_NE(stack, none);
      EXPECT_EQ(InternStack(table_, trace, labels), stack);
      EXPECT_EQ(InternStack(table_, &path, labels), stack);
      EXPECT_EQ(stack->depth, depth + 1);
      std::vector<TaggedPc> expected(trace.frames, trace.frames + depth);
      expected.insert(expected.begin(), labels);
      EXPECT_EQ(FramesOf(table_, stack), expected);
    }
    EXPECT_EQ(InternStack(table_, &path), none);
  }
}

}  // namespace
}  // namespace holdfast
