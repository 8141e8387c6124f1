// What `holdfast push` makes of profiles, keeps on disk, and does about answers. How it all works together: tests/fleet.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "report/fleet/push/idle_process.h"
#include "report/fleet/push/otlp_request.h"
#include "report/fleet/push/push_client.h"
#include "report/fleet/push/push_entry.h"
#include "report/fleet/push/push_labels.h"
#include "report/fleet/push/reported_process.h"
#include "report/fleet/push/sender.h"
#include "report/fleet/push/sent_note.h"
#include "report/fleet/push/series_times.h"
#include "report/fleet/push/server_profile.h"
#include "report/fleet/push/spool.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// `stacks` stacks of `depth` frames; each sample twice, apart by a numeric label alone.
Profile Heap(size_t stacks, size_t depth, size_t name_bytes = 10) {
  Profile profile;
  const auto intern = [&](const std::string& text) { return profile.strings.Intern(text); };
  profile.sample_types = {{intern("alloc_space"), intern("bytes")}, {intern("inuse_space"), intern("bytes")}};
  profile.time_nanos = 1'000'000'000;
  profile.mappings.push_back({.start = 0x1000, .limit = 0x100000, .file = intern("/bin/app")});
  for (size_t i = 0; i < stacks + depth; ++i) {
    profile.functions.push_back({.name = intern(std::string(name_bytes, 'f') + std::to_string(i))});
    profile.locations.push_back({.address = 0x1000 + i * 8, .mapping = 0});
    const Profile::Line line{.function = static_cast<uint32_t>(i), .line = 1};
    profile.SetLines(&profile.locations.back(), {&line, 1});
  }
  for (size_t i = 0; i < stacks; ++i) {
    std::vector<uint32_t> frames;
    for (size_t frame = 0; frame < depth; ++frame) frames.push_back(static_cast<uint32_t>(i + frame));
    for (const int64_t bytes : {16, 32}) {
      const Profile::Label label{.key = intern("bytes"), .number = bytes};
      const int64_t values[] = {bytes, 1};
      profile.AddSample(frames, values, {&label, 1});
    }
  }
  return profile;
}

std::vector<Profile> Decoded(const ServerProfiles& made) {
  std::vector<Profile> parts;
  for (const ServerProfiles::Part& part : made.parts) {
    absl::StatusOr<Profile> profile = DecodePprof(part.pprof, "part");
    EXPECT_TRUE(profile.ok()) << profile.status();
    EXPECT_EQ(profile->time_nanos, part.time_nanos);
    parts.push_back(*std::move(profile));
  }
  return parts;
}

TEST(ServerProfile, SamplesThatOnlyANumberTellsApartAreOne) {
  const std::vector<Profile> parts = Decoded(ForServer(Heap(7, 3)));
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_THAT(parts[0].samples, SizeIs(7));
  EXPECT_EQ(parts[0].Total(0), 7 * 48);
  EXPECT_EQ(parts[0].LabelsOf(parts[0].samples[0]).size(), 0u);
}

TEST(ServerProfile, TooManySamplesBecomeSeveralProfilesOfOtherTimesAndTheSameSums) {
  const std::vector<Profile> parts = Decoded(ForServer(Heap(1000, 3), {.samples = 300}));
  ASSERT_THAT(parts, SizeIs(4));
  std::set<int64_t> times;
  int64_t total = 0;
  for (const Profile& part : parts) {
    EXPECT_LE(part.samples.size(), 300u);
    EXPECT_LT(part.locations.size(), 300u);  // what its samples name, no more
    times.insert(part.time_nanos);
    total += part.Total(0);
  }
  EXPECT_THAT(times, SizeIs(4));
  EXPECT_EQ(total, 1000 * 48);
}

TEST(ServerProfile, TooManyBytesBecomeSeveralProfiles) {
  const ServerProfiles made = ForServer(Heap(100, 3, 1000), {.bytes = 20'000});
  EXPECT_GE(made.parts.size(), 5u);
  int64_t total = 0;
  for (const Profile& part : Decoded(made)) total += part.Total(0);
  EXPECT_EQ(total, 100 * 48);
  EXPECT_EQ(made.too_large, 0u);
}

TEST(ServerProfile, ASampleThatIsTooLargeByItselfIsLeftOutAndCounted) {
  EXPECT_EQ(ForServer(Heap(3, 3, 1000), {.bytes = 2'000}).too_large, 3u);
}

TEST(ServerProfile, DeepStacksKeepTheirOuterFrames) {
  const ServerProfiles made = ForServer(Heap(2, 10), {.depth = 4});
  EXPECT_EQ(made.cut_stacks, 4u);
  const std::vector<Profile> parts = Decoded(made);
  const auto frames = parts[0].FramesOf(parts[0].samples[0]);
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_EQ(parts[0].locations[frames[0]].address, 0x1000u + 6 * 8);
}

TEST(ServerProfile, OwnLabelsAndTheFirstByNameAreKept) {
  Profile profile = Heap(0, 1);
  const auto label = [&](const std::string& name) {
    return Profile::Label{.key = profile.strings.Intern(name), .text = profile.strings.Intern("1")};
  };
  const uint32_t frame = 0;
  const int64_t values[] = {1, 1};
  for (const char* last : {"y", "z"}) {  // equal without their last ones
    const Profile::Label labels[] = {label(last), label("b"), label("wait"), label("a")};
    profile.AddSample({&frame, 1}, values, labels);
  }
  profile.AddSample({&frame, 1}, values, {});
  const ServerProfiles made = ForServer(profile, {.sample_labels = 3});
  EXPECT_EQ(made.cut_labels, 2u);
  EXPECT_THAT(made.left_out, ::testing::ElementsAre("y", "z"));
  const std::vector<Profile> parts = Decoded(made);
  ASSERT_THAT(parts, SizeIs(1));
  ASSERT_THAT(parts[0].samples, SizeIs(2));
  EXPECT_EQ(parts[0].Total(0), 3);
  std::set<std::string_view> names;
  for (const Profile::Label& one : parts[0].LabelsOf(parts[0].samples[0])) names.insert(parts[0].strings[one.key]);
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "wait"));
  EXPECT_TRUE(ForServer(profile).left_out.empty());
}

TEST(SampleLabels, LeaveRoomForTheLabelsOfTheProcess) {
  EXPECT_EQ(SampleLabelsBeside(7), 20u);
  EXPECT_EQ(SampleLabelsBeside(27), 0u);
  EXPECT_EQ(SampleLabelsBeside(40), 0u);
}

PushEntry SomeEntry(const std::string& pprof = "bytes") {
  return {.family = "memory",
          .labels = {{"service_name", "shop"}, {"pid", "7"}, {"program", "shop"}},
          .id = RandomUuid(),
          .from_ns = 5,
          .until_ns = 9,
          .pprof = pprof};
}

TEST(SeriesTimes, EachProfileOfASeriesIsLaterThanTheOneBefore) {
  SeriesTimes times;
  const std::vector<PushLabel> labels = {{"pid", "all"}}, others = {{"pid", "1"}};
  const auto take = [&](const std::string& family, const std::vector<PushLabel>& of, int64_t from_ns,
                        int64_t until_ns) {
    const SeriesSpan span = times.Take(family, of, {from_ns, until_ns}, /*now_ns=*/20'000'000);
    return std::pair(span.from_ns, span.until_ns);
  };
  EXPECT_EQ(take("memory", labels, 1'500'000, 9'000'000), std::pair(INT64_C(1'500'000), INT64_C(9'000'000)));
  EXPECT_EQ(take("memory", labels, 3'000'000, 9'999'999), std::pair(INT64_C(3'000'000), INT64_C(10'000'000)));
  // Of a process that ended before, and of one that began long before.
  EXPECT_EQ(take("memory", labels, 1'000'000, 2'000'000), std::pair(INT64_C(4'000'000), INT64_C(11'000'000)));
  EXPECT_EQ(take("memory", others, 1'500'000, 9'000'000), std::pair(INT64_C(1'500'000), INT64_C(9'000'000)));
  EXPECT_EQ(take("block", labels, 1'500'000, 9'000'000), std::pair(INT64_C(1'500'000), INT64_C(9'000'000)));
  times.Seen("block", labels, 15'000'000);  // by an earlier pusher
  EXPECT_EQ(take("block", labels, 9'500'000, 12'000'000).second, 16'000'000);
  times.ForgetBefore(100'000'000);
  EXPECT_EQ(take("memory", labels, 1'500'000, 9'000'000).second, 9'000'000);
}

TEST(SeriesTimes, GoOnWhereTheClockIsSetBack) {
  SeriesTimes times;
  const std::vector<PushLabel> labels = {{"pid", "1"}};
  constexpr int64_t kHour = int64_t{3600} * kSecond, kNow = 100 * kHour;
  times.Take("memory", labels, {kNow - kSecond, kNow}, kNow);
  const int64_t back_ns = kNow - 300 * kSecond;
  EXPECT_EQ(times.Take("memory", labels, {back_ns - kSecond, back_ns}, back_ns).until_ns, kNow + kMs);
  // The server takes nothing so far ahead of its clock: it did not take the one before, either.
  const int64_t far_back_ns = kNow - kHour;
  EXPECT_EQ(times.Take("memory", labels, {far_back_ns - kSecond, far_back_ns}, far_back_ns).until_ns, far_back_ns);
}

TEST(PushEntry, ARequestHoldsSeveral) {
  PushEntry one = SomeEntry("one"), two = SomeEntry("two");
  two.family = "mutex";
  const PushEntry* const both[] = {&one, &two};
  const PushRequest request = RequestOf(both, PushProtocol::kPush);
  EXPECT_EQ(request.body, RequestOf(one, PushProtocol::kPush).body + RequestOf(two, PushProtocol::kPush).body);
  EXPECT_EQ(MaxEntries(PushProtocol::kIngest), 1u);
}

// As distributors of Pyroscope 2 say it.
TEST(PushEntry, AnAnswerNamesTheRejectedEntries) {
  PushEntry one = SomeEntry(), two = SomeEntry(), three = SomeEntry();
  one.id = "id-1", two.id = "id-2", three.id = "id-3";
  const PushEntry* const all[] = {&one, &two, &three};
  const auto failed = [](int index, const std::string& id) {
    return "push series with index " + std::to_string(index) + " and id " + id + " failed: rate limit";
  };
  const std::string head = R"({"code":"resource_exhausted","message":")";
  EXPECT_EQ(NotTakenOf(head + failed(1, "id-2") + "\"}", all), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(NotTakenOf(head + "2 errors: " + failed(1, "id-2") + "; " + failed(0, "id-1"), all),
            (std::vector<bool>{true, true, false}));
  EXPECT_EQ(NotTakenOf(head + "2 errors: malformed profile; " + failed(1, "id-2"), all), std::nullopt);  // which one?
  EXPECT_EQ(NotTakenOf(head + failed(7, "another's") + "\"}", all), std::nullopt);
  EXPECT_EQ(NotTakenOf("push rate limit (4 MB) exceeded", all), std::nullopt);
  EXPECT_EQ(NotTakenOf("", all), std::nullopt);
}

TEST(SendOutcome, NamesTheSideThatFailed) {
  for (const int status : {200, 202, 204}) EXPECT_EQ(OutcomeOf(status), SendOutcome::kSent);
  for (const int status : {0, 408, 429, 500, 502, 503, 504}) EXPECT_EQ(OutcomeOf(status), SendOutcome::kTryAgain);
  for (const int status : {301, 302, 401, 403, 404, 407}) EXPECT_EQ(OutcomeOf(status), SendOutcome::kWrongSettings);
  for (const int status : {400, 413, 415, 422}) EXPECT_EQ(OutcomeOf(status), SendOutcome::kRefused);
}

TEST(SendOutcome, WaitsDoubleUpToAMinuteAndAreSpread) {
  EXPECT_EQ(WaitBeforeTry(0, -1, 0).count(), 1000);
  EXPECT_EQ(WaitBeforeTry(0, -1, 1).count(), 500);
  EXPECT_EQ(WaitBeforeTry(3, -1, 0).count(), 8000);
  EXPECT_EQ(WaitBeforeTry(1000, -1, 0).count(), 60'000);
  EXPECT_EQ(WaitBeforeTry(3, 7, 0).count(), 7000);
  EXPECT_EQ(WaitBeforeTry(3, 7, 1).count(), 7700);
  EXPECT_EQ(WaitBeforeTry(3, 1'000'000, 0).count(), 300'000);
}

TEST(PushUrl, IsOfAServer) {
  EXPECT_EQ(*CheckedUrl("http://localhost:4040/"), "http://localhost:4040");
  EXPECT_EQ(*CheckedUrl("https://h/pyroscope"), "https://h/pyroscope");
  for (const char* wrong : {"", "localhost", "ftp://x", "http://", "http://:80", "http://x/?a", "http://x y"}) {
    EXPECT_FALSE(CheckedUrl(wrong).ok()) << wrong;
  }
  EXPECT_THAT(std::string(CheckedUrl("http://ann:secret@x").status().message()), ::testing::Not(HasSubstr("secret")));
}

TEST(PushLabels, AreWhatTheServerTakes) {
  EXPECT_EQ(*ParsePushLabel("a_1=b=c"), PushLabel("a_1", "b=c"));
  const std::string longest = "a=" + std::string(2048, 'x');
  EXPECT_TRUE(ParsePushLabel(longest).ok());
  for (const std::string& wrong : {std::string("a"), std::string("=b"), std::string("1a=b"), std::string("a.b=c"),
                                   std::string("a="), std::string("__x=y"), longest + "x", std::string("a=\xff")}) {
    EXPECT_FALSE(ParsePushLabel(wrong).ok()) << wrong;
  }
}

TEST(PushEntry, IsReadAsItWasWritten) {
  const PushEntry entry = SomeEntry();
  const std::string bytes = EncodeEntry(entry);
  const std::optional<PushEntry> read = DecodeEntry(bytes);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(EncodeEntry(*read), bytes);
  EXPECT_EQ(read->labels, entry.labels);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(DecodeEntry(bytes.substr(0, size)).has_value());
  EXPECT_FALSE(DecodeEntry(std::string(100, '\xff')).has_value());
}

TEST(PushEntry, IdsAreUuidsAndDiffer) {
  EXPECT_THAT(RandomUuid(),
              ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  EXPECT_NE(RandomUuid(), RandomUuid());
}

TEST(ReportedProcess, IsReadAsItWasWritten) {
  ReportedProcess reported{.process = "box/1/2/3/4", .program = "shop", .pid = 2, .labels = {{"a", "b"}}, .kinds = {}};
  reported.kinds[1].set_time_nanos(99);
  reported.kinds[1].Put(0xffff'ffff'ffff'fff0, {1, INT64_MAX, 0, 7});
  reported.last_entry = 42;
  const std::optional<ReportedProcess> read = DecodeReported(EncodeReported(reported));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->process, reported.process);
  EXPECT_EQ(read->labels, reported.labels);
  EXPECT_EQ(read->last_entry, 42u);
  EXPECT_EQ(read->kinds[1].time_nanos(), 99);
  EXPECT_EQ(read->kinds[1].Of(0xffff'ffff'ffff'fff0)[1], INT64_MAX);
  EXPECT_EQ(read->kinds[0].all().size(), 0u);
  EXPECT_FALSE(DecodeReported("").has_value());
  EXPECT_FALSE(DecodeReported(std::string(100, '\xff')).has_value());
}

TEST(PushEntry, AnAnswerNamesTheTimeOfTheLastOne) {
  const std::string head =
      R"({"code":"invalid_argument","message":"profile for series {a=\"b\"} out of order (received )";
  EXPECT_EQ(LastTimeIn(head + "2023-11-14 22:13:19 +0000 UTC last 2023-11-14 22:13:20.0015 +0000 UTC)"),
            INT64_C(1'700'000'000'001'500'000));
  EXPECT_EQ(LastTimeIn(head + "2023-11-14 22:13:19 +0000 UTC last 2023-11-15 00:43:20 +0230 CET)"),
            INT64_C(1'700'000'000'000'000'000));
  for (const std::string& other :
       {std::string(), head, head + "x last yesterday)", head + "x last 2023-11-14 22:13:20"}) {
    EXPECT_EQ(LastTimeIn(other), std::nullopt) << other;
  }
}

class SpoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/holdfast-spool-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    out_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(out_); }
  std::unique_ptr<Spool> Open(const std::string& server = "http://localhost:4040") {
    absl::StatusOr<std::unique_ptr<Spool>> spool = Spool::Open(out_, server);
    EXPECT_TRUE(spool.ok()) << spool.status();
    return spool.ok() ? *std::move(spool) : nullptr;
  }
  static void PutWhole(Spool* spool, const std::string& process, const std::string& pprof,
                       const std::string& family = "memory") {
    PushEntry entry = SomeEntry(pprof);
    entry.family = family;
    ASSERT_TRUE(spool->Put(process, entry).ok());
    ReportedProcess reported{.process = process};
    ASSERT_TRUE(spool->Commit(&reported).ok());
  }
  // Of all that may be sent now.
  static std::vector<Spool::Outgoing> BeginAll(Spool* spool) {
    std::vector<uint64_t> numbers;
    for (const Spool::Candidate& one : spool->Candidates()) numbers.push_back(one.number);
    return spool->Begin(numbers);
  }
  static Spool::Outgoing First(Spool* spool) {
    const std::vector<Spool::Outgoing> first = BeginAll(spool);
    EXPECT_FALSE(first.empty());
    if (first.empty()) return {};
    spool->Return({first[0].first.number}, /*not_taken=*/true);
    return first[0];
  }
  static std::string FirstProfile(Spool* spool) { return First(spool).second.pprof; }
  static void SendFirst(Spool* spool) { spool->Sent({BeginAll(spool).at(0).first.number}); }
  // As a pusher does that is killed.
  template <typename Work>
  void DoAndBeKilled(Work work) {
    const pid_t child = fork();
    if (child == 0) {
      const auto spool = Spool::Open(out_, "http://localhost:4040");
      if (spool.ok()) work(spool->get());
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }

  std::string out_;
};

TEST_F(SpoolTest, GoesOnInOrderWhereTheLastOneWas) {
  {
    const auto spool = Open();
    PutWhole(spool.get(), "a", "first");
    PutWhole(spool.get(), "b", "second");
    PutWhole(spool.get(), "a", "third");
    SendFirst(spool.get());
  }
  const auto spool = Open();
  EXPECT_EQ(spool->waiting(), 2u);
  EXPECT_EQ(FirstProfile(spool.get()), "second");
  SendFirst(spool.get());
  EXPECT_EQ(FirstProfile(spool.get()), "third");
  PutWhole(spool.get(), "c", "fourth");
  SendFirst(spool.get());
  EXPECT_EQ(FirstProfile(spool.get()), "fourth");
}

TEST_F(SpoolTest, UncommittedProfilesAreNotKept) {
  {
    const auto spool = Open();
    PutWhole(spool.get(), "a", "first");
    ASSERT_TRUE(spool->Put("a", SomeEntry("half")).ok());
    ASSERT_TRUE(spool->Put("b", SomeEntry("half")).ok());
    EXPECT_EQ(spool->waiting(), 1u);
  }
  const auto spool = Open();
  EXPECT_EQ(spool->waiting(), 1u);
  EXPECT_EQ(FirstProfile(spool.get()), "first");
}

TEST_F(SpoolTest, MemoryInUseNeedsNoCommit) {
  ASSERT_TRUE(Open()->Put("a", SomeEntry("in use"), /*counts=*/false).ok());
  const auto spool = Open();
  ASSERT_EQ(spool->waiting(), 1u);
  EXPECT_EQ(FirstProfile(spool.get()), "in use");
  SendFirst(spool.get());
  EXPECT_EQ(Open("another")->waiting(), 0u);
}

TEST_F(SpoolTest, MemoryInUseStaysInMemoryWhileTheServerAccepts) {
  const auto spool = Open();
  const auto files = [&] {
    return std::count_if(std::filesystem::recursive_directory_iterator(out_),
                         std::filesystem::recursive_directory_iterator(),
                         [](const auto& entry) { return entry.path().extension() == ".still"; });
  };
  ASSERT_TRUE(spool->Put("a", SomeEntry("first"), /*counts=*/false).ok());
  EXPECT_EQ(files(), 0);
  spool->WriteDown();
  EXPECT_EQ(files(), 1);
  ASSERT_TRUE(spool->Put("a", SomeEntry("second"), /*counts=*/false).ok());
  EXPECT_EQ(files(), 2);
  SendFirst(spool.get());
  ASSERT_TRUE(spool->Put("a", SomeEntry("third"), /*counts=*/false).ok());
  EXPECT_EQ(files(), 1);
  SendFirst(spool.get());
  EXPECT_EQ(FirstProfile(spool.get()), "third");
}

TEST_F(SpoolTest, ManyOfThemAreWrittenDownAllTheSame) {
  const auto spool = Open();
  const std::string large(1 << 20, 'x');
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(spool->Put("a", SomeEntry(large), /*counts=*/false).ok());
  uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out_)) {
    if (entry.path().extension() == ".still") on_disk += entry.file_size();
  }
  EXPECT_GT(on_disk, 2u << 20);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(FirstProfile(spool.get()), large);
    SendFirst(spool.get());
  }
  EXPECT_EQ(spool->waiting(), 0u);
}

// As it is left by a pusher that was killed behind the note and before the file was gone.
TEST_F(SpoolTest, ProfilesMarkedAsSentAreNotSentAgain) {
  std::filesystem::path folder;
  {
    const auto spool = Open();
    PutWhole(spool.get(), "a", "first");
    PutWhole(spool.get(), "a", "second");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out_)) {
      if (entry.path().filename() == "notes") folder = entry.path().parent_path();
    }
    const FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY));
    absl::StatusOr<SentNote> note = SentNote::Open(opened.get(), "notes");
    ASSERT_TRUE(note.ok());
    const uint64_t number = First(spool.get()).first.number;
    note->Begin(number);
    note->Done(number);
  }
  const auto spool = Open();
  EXPECT_FALSE(spool->in_doubt());
  ASSERT_EQ(spool->waiting(), 1u);
  EXPECT_EQ(FirstProfile(spool.get()), "second");
}

TEST_F(SpoolTest, AnInterruptedPushIsRepeatedAndReported) {
  {
    const auto spool = Open();
    PutWhole(spool.get(), "a", "first");
    EXPECT_THAT(BeginAll(spool.get()), SizeIs(1));
  }
  {
    const auto spool = Open();
    EXPECT_TRUE(spool->in_doubt());
    ASSERT_EQ(spool->waiting(), 1u);
    First(spool.get());  // not taken
  }
  EXPECT_FALSE(Open()->in_doubt());
}

TEST_F(SpoolTest, NumbersGoOnWhereAllIsSent) {
  uint64_t number = 0;
  {
    const auto spool = Open();
    PutWhole(spool.get(), "a", "first");
    number = First(spool.get()).first.number;
    SendFirst(spool.get());
    spool->Finish({.process = "a"});
  }
  const auto spool = Open();
  PutWhole(spool.get(), "b", "second");
  EXPECT_GT(First(spool.get()).first.number, number);  // else it would pass for sent
}

TEST_F(SpoolTest, FilesOfSentProfilesAreReused) {
  const auto spool = Open();
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out_)) names.insert(entry.path());
    return names.size();
  };
  PutWhole(spool.get(), "a", std::string(5000, 'x'));
  SendFirst(spool.get());
  const size_t before = files();
  for (int i = 0; i < 20; ++i) {
    PutWhole(spool.get(), "a", "short " + std::to_string(i));
    EXPECT_EQ(FirstProfile(spool.get()), "short " + std::to_string(i));
    SendFirst(spool.get());
  }
  EXPECT_LE(files(), before + 1);  // of `reported` there are two by now
}

TEST(IdleProcess, IsIdleWhileItsRecordsStayAndEverythingIsKept) {
  const ServerProfiles made = ForServer(Heap(7, 3));
  IdleProcess idle;
  idle.Begin(11);
  EXPECT_FALSE(idle.IsUnchanged(11));  // not reported yet
  idle.Keep(ProfileKind::kHeap, made, /*may_be_better=*/false);
  idle.End();
  EXPECT_TRUE(idle.IsUnchanged(11));
  EXPECT_FALSE(idle.IsUnchanged(12));
  EXPECT_FALSE(idle.IsUnchanged(std::nullopt));
  EXPECT_THAT(idle.kept(), SizeIs(1));
  idle.Begin(12);
  idle.Keep(ProfileKind::kHeap, made, /*may_be_better=*/true);
  idle.End();
  EXPECT_FALSE(idle.IsUnchanged(12));
}

TEST(AtTime, IsTheSameProfileLater) {
  const std::string before = EncodePprof(Heap(7, 3));
  const absl::StatusOr<Profile> later = DecodePprof(AtTime(before, 42'000'000'000, 5), "later");
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->time_nanos, 42'000'000'000);
  EXPECT_EQ(later->duration_nanos, 5);
  EXPECT_EQ(later->Total(0), DecodePprof(before, "before")->Total(0));
  EXPECT_LT(AtTime(before, INT64_MAX, INT64_MAX).size(), before.size() + 50);
}

TEST(Otlp, ARequestIsPackedAndForAll) {
  PushEntry entry = SomeEntry(EncodePprof(Heap(7, 3)));
  const PushRequest request = RequestOf(entry, PushProtocol::kOtlp);
  EXPECT_EQ(request.path, "/v1development/profiles");
  EXPECT_EQ(request.content_type, "application/x-protobuf");
  EXPECT_TRUE(request.is_gzip);
  EXPECT_TRUE(request.body.starts_with("\x1f\x8b"));
  EXPECT_EQ(request.body, RequestOf(entry, PushProtocol::kOtlp).body);
  EXPECT_FALSE(RequestOf(SomeEntry("no profile"), PushProtocol::kOtlp).body.empty());
}

TEST(Otlp, RejectionsAreRead) {
  EXPECT_FALSE(RejectedByOtlp("").has_value());
  EXPECT_FALSE(RejectedByOtlp("\xff\xff").has_value());
  EXPECT_FALSE(RejectedByOtlp(std::string("\x0a\x06\x12\x04warn", 8)).has_value());  // a warning alone
  EXPECT_EQ(RejectedByOtlp(std::string("\x0a\x07\x08\x02\x12\x03why", 9)), "why");
}

TEST_F(SpoolTest, NothingOfAnExitedProcessStaysAfterTheLastSend) {
  const auto spool = Open();
  PutWhole(spool.get(), "a", "first");
  spool->Finish({.process = "a"});
  EXPECT_TRUE(spool->ReportedOf("a").has_value());  // until then: it says that the entry counts
  SendFirst(spool.get());
  EXPECT_FALSE(spool->ReportedOf("a").has_value());
}

TEST_F(SpoolTest, OneProfileOfASeriesIsSentAtATime) {
  const auto spool = Open();
  for (const char* pprof : {"first", "second"}) {
    for (const char* family : {"memory", "mutex"}) PutWhole(spool.get(), "a", pprof, family);
  }
  const std::vector<Spool::Outgoing> first = BeginAll(spool.get());
  ASSERT_THAT(first, SizeIs(2));
  for (const auto& [waiting, entry] : first) EXPECT_EQ(entry.pprof, "first");
  EXPECT_THAT(BeginAll(spool.get()), SizeIs(0));
  spool->Sent({first[0].first.number});
  spool->Return({first[1].first.number}, /*not_taken=*/true);
  std::set<std::pair<std::string, std::string>> next;
  for (const auto& [waiting, entry] : BeginAll(spool.get())) next.emplace(entry.family, entry.pprof);
  EXPECT_THAT(next, ::testing::UnorderedElementsAre(std::pair(first[0].second.family, "second"),
                                                    std::pair(first[1].second.family, "first")));
}

// The server may have taken it: by the id and the time it knows the copy.
TEST_F(SpoolTest, MemoryInUseIsSentAgainUnchangedAfterAKill) {
  PushEntry entry = SomeEntry("in use");
  DoAndBeKilled([&](Spool* spool) {
    if (spool->Put("a", entry, /*counts=*/false).ok()) BeginAll(spool);
  });
  for (int i = 0; i < 2; ++i) {  // also when the next one is killed
    DoAndBeKilled([&](Spool* spool) { BeginAll(spool); });
  }
  {
    const auto spool = Open();
    EXPECT_TRUE(spool->in_doubt());
    EXPECT_EQ(spool->InDoubtSince("a"), entry.until_ns);
    ASSERT_EQ(spool->waiting(), 1u);
    EXPECT_EQ(First(spool.get()).second.id, entry.id);
    EXPECT_EQ(First(spool.get()).second.until_ns, entry.until_ns);
    SendFirst(spool.get());
  }
  EXPECT_EQ(Open()->waiting(), 0u);
}

TEST_F(SpoolTest, RemembersCompletelySentProcesses) {
  {
    const auto spool = Open();
    EXPECT_FALSE(spool->IsDone("a"));
    spool->Finish({.process = "a", .program = "two words", .pid = 7});
    EXPECT_TRUE(spool->IsDone("a"));
    EXPECT_EQ(spool->done_since_ns(), 0);
  }
  const auto spool = Open();
  EXPECT_TRUE(spool->IsDone("a"));
  EXPECT_FALSE(spool->IsDone("b"));
}

TEST_F(SpoolTest, ProcessesOfAnOlderReleaseAreNotSentAgain) {
  const std::filesystem::path folder = [&] {
    const auto spool = Open();
    return std::filesystem::directory_iterator(out_ + "/.push")->path();
  }();
  std::ofstream(folder / "sent") << "sixteen bytes …";
  EXPECT_GT(Open()->done_since_ns(), 0);
  EXPECT_GT(Open()->done_since_ns(), 0);
}

TEST_F(SpoolTest, ProfilesOfARejectedTenantAreTakenOver) {
  const std::string url = "http://localhost:4040";
  const auto open_for = [&](const std::string& tenant) { return *Spool::Open(out_, url, tenant); };
  {
    const auto wrong = open_for("wrong"), kept = open_for("kept");
    PutWhole(wrong.get(), "a", "first");
    ASSERT_TRUE(wrong->Put("a", SomeEntry("in use"), /*counts=*/false).ok());
    PutWhole(wrong.get(), "b", "known here");
    wrong->Finish({.process = "a"});
    wrong->Refused();
    PutWhole(kept.get(), "c", "another's");
    SendFirst(kept.get());
    PutWhole(kept.get(), "c", "another's");
    kept->Refused();  // once its credentials were good
  }
  {
    const auto before = Open(url + " right");
    ReportedProcess reported{.process = "b"};  // it counts from its own
    reported.kinds[0].set_time_nanos(7);
    ASSERT_TRUE(before->Put("b", SomeEntry("own")).ok());
    ASSERT_TRUE(before->Commit(&reported).ok());
    SendFirst(before.get());
  }
  const auto right = open_for("right");
  EXPECT_EQ(right->taken_over(), 2u);
  EXPECT_TRUE(right->IsDone("a"));
  std::vector<std::string> sent;
  while (right->waiting() != 0) {
    sent.push_back(FirstProfile(right.get()));
    SendFirst(right.get());
  }
  EXPECT_THAT(sent, ::testing::ElementsAre("first", "in use"));
  EXPECT_EQ(open_for("wrong")->waiting(), 0u);
  EXPECT_EQ(open_for("kept")->waiting(), 1u);
}

TEST_F(SpoolTest, HasOneOwnerForEachServer) {
  const auto spool = Open();
  EXPECT_NE(Open("http://localhost:4040 shop"), nullptr);
  const absl::Status second = Spool::Open(out_, "http://localhost:4040").status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("process " + std::to_string(getpid()) + " already pushes"));
}

TEST_F(SpoolTest, BeyondItsCapTheOldestGo) {
  const auto spool = Open();
  for (int i = 0; i < 10; ++i) PutWhole(spool.get(), "a", std::string(1000, static_cast<char>('0' + i)));
  EXPECT_EQ(spool->Shrink(0), 0u);
  EXPECT_EQ(spool->Shrink(5000), 6u);
  EXPECT_EQ(FirstProfile(spool.get())[0], '6');
  const Spool::Outgoing first = First(spool.get());
  spool->SetAside(first.first, first.second);
  EXPECT_EQ(spool->waiting(), 3u);
  EXPECT_EQ(spool->Shrink(4000), 0u);  // what was set aside goes first
  EXPECT_EQ(spool->waiting(), 3u);
}

}  // namespace
}  // namespace holdfast
