#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>
#include <zlib.h>

#include <random>
#include <regex>

#include "fmt/format.h"
#include "holdfast.pb.h"
#include "profile.pb.h"
#include "report/profile/time_counts.h"
#include "report/profile/typed_records.h"
#include "report/profile/written_comments.h"
#include "sampler/contract/time_buckets.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Folder;
using testing::GoPprof;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadWhole;
using testing::SmallProfile;
namespace pb = perftools::profiles;

std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

std::string Unpack(std::string_view packed) {
  z_stream stream = {};
  inflateInit2(&stream, 15 + 16);
  std::string bytes(64 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(bytes.size() - stream.avail_out);
  inflateEnd(&stream);
  return bytes;
}

// The independent reader: libprotobuf with tests/support/profile.proto.
pb::Profile ReadByLibprotobuf(const std::string& packed) {
  pb::Profile profile;
  EXPECT_TRUE(profile.ParseFromString(Unpack(packed)));
  return profile;
}

std::string ErrorOf(std::string_view bytes, uint64_t max_bytes = kMaxProfileBytes) {
  const auto profile = DecodePprof(bytes, "x.pb.gz", max_bytes);
  return profile.ok() ? "no error" : std::string(profile.status().message());
}

// A small message in the wire format, for what no writer writes.
pb::Profile Minimal() {
  pb::Profile profile;
  profile.add_string_table("");
  profile.add_string_table("n");
  profile.add_sample_type()->set_type(1);
  return profile;
}

void ExpectEqual(const Profile& a, const Profile& b) {
  const auto text = [](const Profile& p, StringId id) { return std::string(p.strings[id]); };
  ASSERT_EQ(a.sample_types.size(), b.sample_types.size());
  for (size_t i = 0; i < a.sample_types.size(); ++i) {
    EXPECT_EQ(text(a, a.sample_types[i].type), text(b, b.sample_types[i].type));
    EXPECT_EQ(text(a, a.sample_types[i].unit), text(b, b.sample_types[i].unit));
  }
  EXPECT_EQ(text(a, a.default_sample_type), text(b, b.default_sample_type));
  EXPECT_EQ(text(a, a.period_type.type), text(b, b.period_type.type));
  EXPECT_EQ(a.period, b.period);
  EXPECT_EQ(a.time_nanos, b.time_nanos);
  EXPECT_EQ(a.duration_nanos, b.duration_nanos);
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(a.FramesOf(a.samples[i]), b.FramesOf(b.samples[i])));
    EXPECT_TRUE(std::ranges::equal(a.ValuesOf(i), b.ValuesOf(i)));
    const auto a_labels = a.LabelsOf(a.samples[i]), b_labels = b.LabelsOf(b.samples[i]);
    ASSERT_EQ(a_labels.size(), b_labels.size());
    for (size_t k = 0; k < a_labels.size(); ++k) {
      EXPECT_EQ(text(a, a_labels[k].key), text(b, b_labels[k].key));
      EXPECT_EQ(text(a, a_labels[k].text), text(b, b_labels[k].text));
      EXPECT_EQ(a_labels[k].number, b_labels[k].number);
      EXPECT_EQ(text(a, a_labels[k].unit), text(b, b_labels[k].unit));
    }
  }
  ASSERT_EQ(a.mappings.size(), b.mappings.size());
  for (size_t i = 0; i < a.mappings.size(); ++i) {
    EXPECT_EQ(a.mappings[i].start, b.mappings[i].start);
    EXPECT_EQ(a.mappings[i].limit, b.mappings[i].limit);
    EXPECT_EQ(a.mappings[i].offset, b.mappings[i].offset);
    EXPECT_EQ(text(a, a.mappings[i].file), text(b, b.mappings[i].file));
    EXPECT_EQ(text(a, a.mappings[i].build_id), text(b, b.mappings[i].build_id));
    EXPECT_EQ(a.mappings[i].has_functions, b.mappings[i].has_functions);
  }
  ASSERT_EQ(a.locations.size(), b.locations.size());
  for (size_t i = 0; i < a.locations.size(); ++i) {
    EXPECT_EQ(a.locations[i].address, b.locations[i].address);
    EXPECT_EQ(a.locations[i].mapping, b.locations[i].mapping);
    EXPECT_EQ(a.locations[i].is_folded, b.locations[i].is_folded);
    EXPECT_EQ(a.locations[i].is_tail_call, b.locations[i].is_tail_call);
    const auto a_lines = a.LinesOf(a.locations[i]), b_lines = b.LinesOf(b.locations[i]);
    ASSERT_EQ(a_lines.size(), b_lines.size());
    for (size_t k = 0; k < a_lines.size(); ++k) {
      EXPECT_EQ(a_lines[k].function, b_lines[k].function);
      EXPECT_EQ(a_lines[k].line, b_lines[k].line);
    }
  }
  ASSERT_EQ(a.functions.size(), b.functions.size());
  for (size_t i = 0; i < a.functions.size(); ++i) {
    EXPECT_EQ(text(a, a.functions[i].name), text(b, b.functions[i].name));
    EXPECT_EQ(text(a, a.functions[i].system_name), text(b, b.functions[i].system_name));
    EXPECT_EQ(a.functions[i].start_line, b.functions[i].start_line);
  }
  ASSERT_EQ(a.comments.size(), b.comments.size());
  for (size_t i = 0; i < a.comments.size(); ++i) EXPECT_EQ(text(a, a.comments[i]), text(b, b.comments[i]));
}

// ---- Writing ----

// `go tool pprof -top` prints every comment above its table.
TEST(PprofWriter, AtMostTwentyCommentsTheRecordsHaveTheRest) {
  Profile profile = SmallProfile();
  profile.comments.clear();
  for (const char* comment : {"kind: mutex", "exact: delay_ns", "delay_ns: 5", "no names: /a", "no names: /b: why",
                              "waiting: 2 threads, delay_ns 7"})
    profile.AddComment(comment);
  for (int i = 0; i < 16; ++i) profile.AddComment(fmt::format("noted {}: it", i));
  const auto written = [&] {
    const pb::Profile others = ReadByLibprotobuf(EncodePprof(profile));
    std::vector<std::string> comments;
    for (const int64_t id : others.comment()) comments.push_back(others.string_table(static_cast<int>(id)));
    return comments;
  };
  EXPECT_EQ(written().size(), 22u) << "without records all of them";
  profile.mutable_process()->kind = "mutex";
  EXPECT_EQ(written().size(), kMaxComments);
  EXPECT_THAT(written(), AllOf(Contains("delay_ns: 5"), Contains("kind: mutex"), Contains("exact: delay_ns"),
                               Contains("noted 15: it"), Contains("waiting: 2 threads, delay_ns 7")));
  for (int i = 16; i < 30; ++i) profile.AddComment(fmt::format("noted {}: it", i));
  profile.AddComment("tail calls: 3");
  EXPECT_THAT(written(), AllOf(Contains("kind: mutex"), Contains("tail calls: 3")))
      << "older releases need the one, and no record has the other";
}

// ---- Typed records ----

record::Profile SomeRecords() {
  record::Profile records;
  records.process.emplace().kind = "mutex";
  records.process->profiled = {"heap", "mutex"};
  records.process->moment = record::Moment::kAfterExitHandlers;
  records.total.push_back({.type = "delay", .value = -5, .half_width = 0.25});
  records.account.emplace().live = record::Estimate{.value = 9e7, .variance = 4.8e13};
  record::Course& course = records.course.emplace();
  course.elapsed_ns = {40'000'000, 80'000'000};
  course.sample.push_back({.number = 1, .allocated_bytes = {4096, uint64_t{1} << 40}, .allocated_objects = {1, 2}});
  course.sample.push_back({.number = 2, .allocated_bytes = {100}, .allocated_objects = {1}, .freed_bytes = {0, 100}});
  record::Locks& locks = records.locks.emplace();
  record::Lock& lock = locks.lock.emplace_back();
  lock.number = 1;
  lock.kind = "mutex";
  lock.address = 0x55d2c0a81040;
  lock.contentions = 120;
  lock.wait_times.Add(TimeBucket(20'000), 90.5);
  lock.hold_times.set_incomplete();
  lock.block_stack = 2;
  lock.file = "server";
  locks.stack = {{0, 1}, {1}};
  locks.pair.push_back({.lock = 1, .holder = 2, .contentions = 12.5, .delay_ns = 4e5});
  locks.site.push_back({.stack = 1, .kind = "mutex", .is_holder = true, .longest_ns = 61'000});
  locks.kind.push_back({.kind = "mutex", .contentions = 120, .delay_ns = 5'000'000});
  record::Waits& waits = records.waits.emplace();
  waits.threads = 2;
  waits.thread.push_back({.tid = 4711, .gone = true, .name = "worker", .polls = true, .stack = 1});
  waits.wait.push_back({.thread = 1, .kind = "mutex", .source = record::HolderSource::kLast, .owner_died = true});
  waits.deadlock.push_back({{1, 2}});
  waits.stack = {{0}};
  record::Threads& threads = records.threads.emplace();
  threads.thread.push_back({.stack = 1, .tid = 4713, .name = "io-worker"});
  threads.stack = {{1, 0}};
  return records;
}

TEST(PprofRecords, AreReadAsTheyWereWritten) {
  Profile profile = SmallProfile();
  ASSERT_GE(profile.locations.size(), 2u);
  *profile.mutable_records() = SomeRecords();
  const auto read = DecodePprof(EncodePprof(profile), "small");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records(), SomeRecords());
  ExpectEqual(profile, *read);
}

// Protobuf's own library reads them by proto/holdfast.proto, and writes what the reader reads.
TEST(PprofRecords, EqualTheProtoFile) {
  Profile profile = SmallProfile();
  *profile.mutable_records() = SomeRecords();
  const std::string bytes = Unpack(EncodePprof(profile));
  records::Profile others;
  ASSERT_TRUE(others.ParseFromString(bytes));
  ASSERT_EQ(others.locks().lock_size(), 1);
  EXPECT_EQ(others.locks().lock(0).address(), 0x55d2c0a81040u);
  EXPECT_EQ(others.locks().lock(0).wait_times().bucket(0).count(), 90.5);
  EXPECT_EQ(others.locks().stack(0).location_id(1), 2u);
  EXPECT_EQ(others.waits().wait(0).source(), records::HOLDER_LAST);
  EXPECT_EQ(others.waits().deadlock(0).thread_size(), 2);
  const auto read = DecodePprof(others.SerializeAsString(), "others");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records(), SomeRecords());
}

TEST(PprofRecords, OlderFilesGiveRecordsFromTheirComments) {
  Profile profile = SmallProfile();
  profile.comments.clear();
  ASSERT_GE(profile.locations.size(), 2u);
  const std::string stack = fmt::format(" 0x{:x} 0x{:x}", profile.locations[1].address, profile.locations[0].address);
  const std::vector<std::string> old = {
      "kind: mutex",
      "program: app",
      "pid: 42",
      "elapsed: 12.500s",
      "started: 2023-11-14T22:13:20.250Z",
      "profiled: heap mutex",
      "interval: 65536 ns",
      "interval since 2023-11-14T22:13:20.000Z: 524288 ns",
      "interval since 2023-11-14T22:13:21.000Z: 65536 ns",
      "total delay: 496 ± 12",
      "lost stack-table-full: 312",
      "no lines: /usr/bin/app: not in time; holdfast symbolize FILE adds them",
      "merged: the highest of 312 processes",
      "delay_ns: 7",
      "lock_samples: 9",
      "mutex delay_ns: 5",
      "lock stack 1:" + stack,
      "lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 5000000 longest_ns 90000 holds 80 hold_ns 4900000",
      "lock 1 block: 64 bytes, 16 into it, stack 1",
      "lock 1 name: server!0x4a080",
      "lock 1 wait_times: incomplete 1048576:12 16777216:3.50",
      "lock pair 1: lock 1 holder - waiter 1 contentions 12.50 delay_ns 400000",
      "lock of the door",
      "waiting: 1 thread, delay_ns 11",
      "waiting thread 1: tid 4711 number 2 gone 0 name the worker",
      "waiting thread 1 does: sleeps in epoll_wait (ep_poll)",
      "waiting 1: thread 1 mutex 0x10 lock 1 delay_ns 11 stack - holder 1 source last readers 0 died 1",
      "waiting deadlock 1: 1 1",
      "thread 1: stack 1 tid 4713 name io worker",
      "thread stack 1:" + stack + " 0x1",
      "lock 1 name",
      "lock pair 1: lock 1"};
  for (const std::string& comment : old) profile.AddComment(comment);
  const auto read = DecodePprof(EncodePprof(profile), "old");
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<std::string> left;
  for (const std::string_view comment : read->CommentTexts()) left.emplace_back(comment);
  EXPECT_THAT(left, Not(Contains(::testing::StartsWith("lock 1:"))));
  EXPECT_THAT(left, Not(Contains(::testing::AnyOf("lock_samples: 9", "mutex delay_ns: 5", "profiled: heap mutex"))));
  for (const char* kept : {"kind: mutex", "delay_ns: 7", "lock of the door", "waiting: 1 thread, delay_ns 11",
                           "lock 1 name", "lock pair 1: lock 1", "total delay: 496 ± 12"})
    EXPECT_THAT(left, Contains(kept)) << "what is for people, and what is not ours";
  const record::Process& process = read->process();
  EXPECT_EQ(process.kind, "mutex");
  EXPECT_EQ(process.pid, 42u);
  EXPECT_EQ(process.elapsed_ns, 12'500'000'000);
  EXPECT_EQ(process.started_ns, 1'700'000'000'250'000'000);
  EXPECT_EQ(process.profiled.size(), 2u);
  ASSERT_EQ(read->records().sampling->interval.size(), 2u);
  EXPECT_EQ(read->records().sampling->interval[1].mean, 65536);
  EXPECT_EQ(read->records().sampling->interval[1].unit, "ns");
  EXPECT_EQ(read->records().sampling->interval[1].since_ns, 1'700'000'001'000'000'000);
  ASSERT_EQ(read->records().total.size(), 1u);
  EXPECT_EQ(read->records().total[0].half_width, 12);
  ASSERT_EQ(read->records().loss.size(), 1u);
  EXPECT_EQ(read->records().loss[0].count, 312u);
  ASSERT_EQ(read->records().missing_names.size(), 1u);
  EXPECT_TRUE(read->records().missing_names[0].not_in_time);
  EXPECT_EQ(read->records().missing_names[0].path, "/usr/bin/app");
  EXPECT_EQ(read->records().merged->processes, 312u);
  EXPECT_EQ(read->records().merged->how, record::MergeMode::kHighest);
  const record::Profile& records = read->records();
  ASSERT_TRUE(records.locks.has_value() && records.waits.has_value() && records.threads.has_value());
  EXPECT_EQ(records.locks->delay_ns, 7);
  EXPECT_EQ(records.locks->samples, 9u);
  ASSERT_EQ(records.locks->kind.size(), 1u);
  EXPECT_EQ(records.locks->kind[0].delay_ns, 5);
  ASSERT_EQ(records.locks->lock.size(), 1u);
  const record::Lock& lock = records.locks->lock[0];
  EXPECT_EQ(lock.address, 0x55d2c0a81040u);
  EXPECT_EQ(lock.block_bytes, 64);
  EXPECT_EQ(lock.block_stack, 1u);
  EXPECT_EQ(lock.file, "server");
  EXPECT_EQ(lock.file_address, 0x4a080u);
  EXPECT_FALSE(lock.wait_times.complete());
  EXPECT_EQ(lock.wait_times.total(), 15.5);
  const std::vector<std::vector<uint32_t>> stacks = {{1, 0}};
  EXPECT_EQ(records.locks->stack, stacks);
  ASSERT_EQ(records.locks->pair.size(), 1u);
  EXPECT_EQ(records.locks->pair[0].holder, 0u);
  EXPECT_EQ(records.locks->pair[0].contentions, 12.5);
  ASSERT_EQ(records.waits->thread.size(), 1u);
  EXPECT_EQ(records.waits->thread[0].name, "the worker");
  EXPECT_TRUE(records.waits->thread[0].polls);
  ASSERT_EQ(records.waits->wait.size(), 1u);
  EXPECT_EQ(records.waits->wait[0].source, record::HolderSource::kLast);
  EXPECT_TRUE(records.waits->wait[0].owner_died);
  EXPECT_EQ(records.waits->deadlock.size(), 1u);
  ASSERT_EQ(records.threads->thread.size(), 1u);
  EXPECT_EQ(records.threads->thread[0].name, "io worker");
  EXPECT_EQ(records.threads->stack, stacks) << "without the address that has no location";
}

// Stacks and threads are numbered by their places.
TEST(PprofRecords, EmptyOnesKeepTheirPlaces) {
  Profile profile = SmallProfile();
  record::Profile records = SomeRecords();
  records.locks->stack = {{}, {0}, {}, {1}, {}};
  records.waits->stack = {{}, {1}};
  records.waits->thread.resize(4);
  records.waits->thread[1].tid = 4711;
  records.waits->thread[3].tid = 4712;
  records.threads->stack = {{1}, {}};
  records.pages.emplace();
  records.account->in_use.emplace();
  *profile.mutable_records() = records;
  const auto read = DecodePprof(EncodePprof(profile), "small");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records(), records);
}

TEST(PprofRecords, AStackWithAnUnknownLocationIsEmpty) {
  Profile profile = SmallProfile();
  record::Profile records = SomeRecords();
  records.locks->stack = {{0, 1000, 1}, {1}};
  *profile.mutable_records() = records;
  const auto read = DecodePprof(EncodePprof(profile), "small");
  ASSERT_TRUE(read.ok()) << read.status();
  records.locks->stack = {{}, {1}};
  EXPECT_EQ(read->records(), records);
}

// The other fields and the samples are good.
TEST(PprofRecords, AFieldOfAnotherTypeIsSkipped) {
  Profile profile = SmallProfile();
  *profile.mutable_records() = SomeRecords();
  std::string bytes = Unpack(EncodePprof(profile));
  bytes += std::string("\xd8\x3e\x05", 3);  // process: a number
  bytes += std::string(
      "\xa2\x3f\x07\x2a\x03"
      "abc\x30\x07",
      10);  // locks: contentions is text, delay_ns is 7
  const auto read = DecodePprof(bytes, "small");
  ASSERT_TRUE(read.ok()) << read.status();
  record::Profile records = SomeRecords();
  records.locks->delay_ns = 7;
  EXPECT_EQ(read->records(), records);
}

TEST(PprofRecords, MoreThanAnyWriterWritesAreDamage) {
  const std::string bytes = Unpack(EncodePprof(SmallProfile()));
  records::Profile others;
  const auto read = [&] { return DecodePprof(bytes + others.SerializeAsString(), "small"); };
  for (int i = 0; i < 100'000; ++i) others.mutable_locks()->add_stack();
  EXPECT_TRUE(read().ok());
  others.mutable_locks()->add_stack();
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("a record has more than 100000 of field 2"));
  others.Clear();
  for (int i = 0; i <= 100'000; ++i) others.mutable_merged()->add_from();
  EXPECT_FALSE(read().ok());
}

// A file of 5 KB may refer to one comment a million times.
TEST(PprofRecords, OldCommentsAreReadOnceHoweverOftenTheFileHasThem) {
  Profile profile = SmallProfile();
  const size_t others = profile.comments.size();
  for (int i = 0; i < 1000; ++i) {
    for (const char* comment :
         {"merged from: a", "object: a is called b", "no names: /a: why", "lost live-table-full: 7",
          "frees not seen: 5 bytes in 1 blocks of /a, which calls another free", "profiled: heap mutex",
          "waiting deadlock 1: 1 2", "noted: it"})
      profile.AddComment(comment);
  }
  const auto read = DecodePprof(EncodePprof(profile), "old");
  ASSERT_TRUE(read.ok()) << read.status();
  const record::Profile& records = read->records();
  EXPECT_EQ(records.merged->from.size(), 1u);
  EXPECT_EQ(records.process->object.size(), 1u);
  EXPECT_EQ(records.missing_names.size(), 1u);
  EXPECT_EQ(records.loss.size(), 1u);
  EXPECT_EQ(records.unseen_frees.size(), 1u);
  EXPECT_EQ(records.process->profiled.size(), 2u);
  EXPECT_EQ(records.waits->deadlock.size(), 1u);
  EXPECT_LE(read->comments.size(), others + 4000) << "only comments for people are left";
}

// Without a search through all locks for each comment.
TEST(PprofRecords, OldCommentsOfManyLocksFindTheirLock) {
  constexpr int kLocks = 20'000;
  Profile profile = SmallProfile();
  for (int i = 1; i <= kLocks; ++i)
    profile.AddComment(fmt::format("lock {}: mutex 0x10 contentions 1 delay_ns 2 longest_ns 2 holds 0 hold_ns 0", i));
  profile.AddComment("lock 7: rwlock-read 0x10 contentions 1 delay_ns 2 longest_ns 2 holds 0 hold_ns 0");
  profile.AddComment("lock 20001 alone: 1");
  for (int i = 1; i <= kLocks; ++i) profile.AddComment(fmt::format("lock {} alone: {}", i, 2 * i));
  for (int i = 1; i <= kLocks; ++i) profile.AddComment(fmt::format("lock site {} mutex hold_times: longest_ns 5", i));
  for (int i = 1; i <= kLocks; ++i) profile.AddComment(fmt::format("lock site {} mutex alone: {} of 500000", i, i));
  const auto read = DecodePprof(EncodePprof(profile), "old");
  ASSERT_TRUE(read.ok()) << read.status();
  const std::optional<record::Locks>& locks = read->records().locks;
  ASSERT_EQ(locks->lock.size(), 20'001u);
  EXPECT_EQ(locks->lock[6].alone_ns, 14) << "the first of two with one number";
  EXPECT_EQ(locks->lock[19'999].alone_ns, 40'000);
  ASSERT_EQ(locks->site.size(), 20'000u);
  EXPECT_EQ(locks->site.back().alone_ns, 20'000);
  EXPECT_EQ(locks->site.back().delay_ns, 500'000);
}

// `go tool pprof -proto A B` writes the comments of B after those of A.
TEST(PprofRecords, TheFirstOfSeveralOldCommentsCounts) {
  Profile profile = SmallProfile();
  profile.comments.clear();
  for (const char* comment : {"kind: mutex",
                              "program: first",
                              "executable: /bin/first",
                              "command: first -a",
                              "pid: 1",
                              "elapsed: 1.000s",
                              "interval: 10 ns",
                              "total delay: 4 ± 1",
                              "lost live-table-full: 3",
                              "delay_ns: 5",
                              "mutex delay_ns: 6",
                              "peak: 7 bytes at 2026-01-02T03:04:05.678Z",
                              "kind: heap",
                              "program: redis-server",
                              "executable: /bin/redis-check-rdb",
                              "command: /bin/redis-server *:6379",
                              "pid: 2",
                              "elapsed: 2.000s",
                              "interval: 20 ns",
                              "total delay: 8 ± 2",
                              "lost live-table-full: 9",
                              "lost ages-full: 9",
                              "delay_ns: 50",
                              "mutex delay_ns: 60",
                              "peak: 70 bytes at 2027-01-02T03:04:05.678Z",
                              "program: third",
                              "executable: /bin/other"})
    profile.AddComment(comment);
  const auto read = DecodePprof(EncodePprof(profile), "old");
  ASSERT_TRUE(read.ok()) << read.status();
  const record::Process& process = read->process();
  EXPECT_EQ(process.kind, "mutex");
  EXPECT_EQ(process.program, "first");
  EXPECT_EQ(process.executable, "/bin/first");
  EXPECT_EQ(process.command, "first -a");
  EXPECT_EQ(process.pid, 1u);
  EXPECT_EQ(process.elapsed_ns, 1'000'000'000);
  const std::vector<record::ObjectName> objects = {{"redis-check-rdb", "redis-server"}};
  EXPECT_EQ(process.object, objects) << "only of a later program that is called otherwise than its file";
  const record::Profile& records = read->records();
  EXPECT_EQ(records.sampling->interval[0].mean, 10);
  ASSERT_EQ(records.total.size(), 1u);
  EXPECT_EQ(records.total[0].value, 4);
  ASSERT_EQ(records.loss.size(), 2u);
  EXPECT_EQ(records.loss[0].count, 3u);
  EXPECT_EQ(records.locks->delay_ns, 5);
  EXPECT_EQ(records.locks->kind.at(0).delay_ns, 6);
  EXPECT_EQ(records.peak->bytes, 7);
}

TEST(PprofRecords, ForeignCommentsGiveNoRecords) {
  Profile profile = SmallProfile();
  profile.comments.clear();
  for (const char* comment :
       {"noted: it", "waiting: for the door", "peak: high", "lock of the door", "lock 2 alone: 1"})
    profile.AddComment(comment);
  const auto read = DecodePprof(EncodePprof(profile), "others");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records(), record::Profile{});
}

// A file with records has everything in them, even without a process.
TEST(PprofRecords, BesideRecordsNoCommentIsRead) {
  Profile profile = SmallProfile();
  profile.mutable_records()->loss.push_back({"live-table-full", 7});
  profile.AddComment("lost live-table-full: 7");
  const auto read = DecodePprof(EncodePprof(profile), "small");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records(), profile.records());
}

// Other people's comments are theirs, however many.
TEST(PprofWriter, CommentsOfOthersStayComments) {
  Profile profile = SmallProfile();
  profile.comments.clear();
  for (int i = 0; i < 50; ++i) profile.AddComment(fmt::format("lock of the door {}", i));
  EXPECT_EQ(ReadByLibprotobuf(EncodePprof(profile)).comment_size(), 50);
}

// ---- Lengths ----

TEST(TimeCounts, PercentilesAreWithinHalfABucketAndTheLastIsExact) {
  TimeCounts times;
  EXPECT_EQ(times.Percentile(0.5, 0), -1);
  times.Add(TimeBucket(1'000'000), 90);
  times.Add(TimeBucket(20'000'000), 9);
  times.Add(TimeBucket(200'123'456), 1);
  const auto near = [&](double share) { return static_cast<double>(times.Percentile(share, 200'123'456)); };
  EXPECT_NEAR(near(0.5), 1e6, 0.12e6);
  EXPECT_NEAR(near(0.9), 1e6, 0.12e6) << "the 90th of 100";
  EXPECT_NEAR(near(0.91), 20e6, 2.4e6);
  EXPECT_NEAR(near(0.99), 20e6, 2.4e6);
  EXPECT_EQ(times.Percentile(0.991, 200'123'456), 200'123'456);
  EXPECT_EQ(times.LengthsText(200'123'456), "p50 980us  p90 980us  p99 19ms  longest 200ms");
  // Every length, from 64 ns to 19 hours: nearer than 12 % to what is said of it. (A lone one is exact.)
  for (double ns = 64; ns < 7e13; ns *= 1.01) {
    TimeCounts one;
    one.Add(TimeBucket(static_cast<uint64_t>(ns)), 2);
    EXPECT_NEAR(static_cast<double>(one.Percentile(0.5, INT64_MAX)) / ns, 1, 0.12) << ns;
  }
  // No percentile is above the longest.
  TimeCounts few;
  few.Add(TimeBucket(1'000'000), 100);
  EXPECT_LE(few.Percentile(0.5, 920'000), 920'000);
}

TimeCounts Times(std::initializer_list<std::pair<uint64_t, double>> counts) {
  TimeCounts times;
  for (const auto& [from_ns, count] : counts) times.Add(TimeBucket(from_ns), count);
  return times;
}

TEST(TimeCounts, AddUpAndAreTakenAway) {
  TimeCounts a = Times({{1048576, 90}, {16777216, 9.5}});
  const TimeCounts b = Times({{16777216, 1}, {0, 3}});
  a.Add(b);
  EXPECT_EQ(a, Times({{0, 3}, {1048576, 90}, {16777216, 10.5}}));
  a.Subtract(b);
  EXPECT_EQ(a, Times({{1048576, 90}, {16777216, 9.5}}));
  a.Subtract(Times({{1048576, 91}, {64, 1}}));
  EXPECT_EQ(a, Times({{16777216, 9.5}})) << "never below 0";
}

TEST(TimeCounts, UncountedTimesLeaveNoPercentiles) {
  TimeCounts times = Times({{1048576, 90}});
  times.set_incomplete();
  EXPECT_EQ(times.Percentile(0.5, 2'000'000), -1);
  TimeCounts sum;
  sum.Add(times);
  EXPECT_FALSE(sum.complete());
  EXPECT_THAT(sum.LengthsText(5), HasSubstr("unknown"));
}

TEST(PprofRecords, OldTextOfLengthsMayBeAnything) {
  for (const char* text :
       {"", " ", ":", "5", "5:", "5:x", "x:5", "-1:5", "5:-1", "5:nan", "5:inf x", "99999999999999999999:1", "5:0"}) {
    Profile profile = SmallProfile();
    profile.AddComment("lock 1: mutex 0x10 contentions 1 delay_ns 2 longest_ns 2 holds 0 hold_ns 0");
    profile.AddComment(std::string("lock 1 wait_times: ") + text);
    const auto read = DecodePprof(EncodePprof(profile), "old");
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->records().locks->lock.size(), 1u) << text;
    const TimeCounts& times = read->records().locks->lock[0].wait_times;
    EXPECT_LE(times.total(), 1e16) << text;
    EXPECT_LE(times.Percentile(0.5, 7), 7) << text;
  }
}

TEST(PprofWriter, WrittenProfilesAreReadBack) {
  Profile profile = SmallProfile();
  profile.locations[1].is_folded = true;
  profile.locations[0].is_tail_call = true;
  profile.locations[2].mapping = Profile::kNone;
  profile.drop_frames = profile.strings.Intern("drop");
  profile.duration_nanos = 5;
  const auto read = DecodePprof(EncodePprof(profile), "small");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(profile, *read);
  EXPECT_EQ(read->strings[read->drop_frames], "drop");
}

TEST(PprofWriter, AnEmptyProfileIsReadBackToo) {
  Profile profile;
  profile.sample_types.push_back({profile.strings.Intern("delay"), profile.strings.Intern("nanoseconds")});
  const auto read = DecodePprof(EncodePprof(profile), "empty");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->samples.size(), 0u);
}

TEST(PprofWriter, IdsCountFromOneInTableOrder) {
  const pb::Profile read = ReadByLibprotobuf(EncodePprof(SmallProfile()));
  for (int i = 0; i < read.mapping_size(); ++i) EXPECT_EQ(read.mapping(i).id(), uint64_t(i) + 1);
  for (int i = 0; i < read.location_size(); ++i) EXPECT_EQ(read.location(i).id(), uint64_t(i) + 1);
  for (int i = 0; i < read.function_size(); ++i) EXPECT_EQ(read.function(i).id(), uint64_t(i) + 1);
}

TEST(PprofWriter, AnIndependentReaderSeesTheSameProfile) {
  const pb::Profile read = ReadByLibprotobuf(EncodePprof(SmallProfile()));
  const auto text = [&](int64_t index) { return read.string_table(static_cast<int>(index)); };
  EXPECT_EQ(text(0), "");
  ASSERT_EQ(read.sample_type_size(), 4);
  EXPECT_EQ(text(read.sample_type(0).type()), "alloc_objects");
  EXPECT_EQ(text(read.sample_type(3).type()), "inuse_space");
  EXPECT_EQ(text(read.default_sample_type()), "inuse_space");
  EXPECT_EQ(text(read.period_type().type()), "space");
  EXPECT_EQ(read.period(), 524288);
  ASSERT_EQ(read.sample_size(), 3);
  EXPECT_EQ(std::vector<uint64_t>(read.sample(0).location_id().begin(), read.sample(0).location_id().end()),
            (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_EQ(read.sample(0).value(3), 400);
  EXPECT_EQ(text(read.sample(0).label(0).key()), "bytes");
  EXPECT_EQ(read.sample(0).label(0).num(), 104);
  ASSERT_EQ(read.location(1).line_size(), 2);
  EXPECT_EQ(text(read.function(static_cast<int>(read.location(1).line(0).function_id()) - 1).name()), "app::grow(int)");
  EXPECT_EQ(read.location(2).mapping_id(), 2u);
  EXPECT_EQ(read.mapping(0).memory_start(), 0x400000u);
  EXPECT_EQ(read.mapping(0).file_offset(), 0x1000u);
  EXPECT_EQ(text(read.mapping(1).build_id()), "aabb");
  EXPECT_EQ(text(read.comment(0)), "kind: heap");
}

TEST(PprofWriter, DefaultSampleTypeIsTheLastField) {
  const std::string bytes = Unpack(EncodePprof(SmallProfile()));
  EXPECT_EQ(static_cast<unsigned char>(bytes[bytes.size() - 2]), 14 << 3);  // its index is one byte
}

TEST(PprofWriter, BadBytesInStringsBecomeReplacementCharacters) {
  Profile profile = SmallProfile();
  profile.functions[0].name = profile.strings.Intern("caf\xe9 \xf0\x9f\x98\x80 \xed\xa0\x80 \xc0\xaf ok");
  const pb::Profile read = ReadByLibprotobuf(EncodePprof(profile));  // proto3 strings must be UTF-8: it refuses others
  EXPECT_EQ(read.string_table(static_cast<int>(read.function(0).name())),
            "caf\xef\xbf\xbd \xf0\x9f\x98\x80 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd ok");
}

TEST(PprofWriter, EqualProfilesGiveEqualFiles) { EXPECT_EQ(EncodePprof(SmallProfile()), EncodePprof(SmallProfile())); }

// zlib's tables cost more than the rest of writing it, and a disk gives it a whole block anyway.
TEST(PprofWriter, OnlyAProfileOfAFewKilobytesIsStoredAsItIs) {
  Profile profile = SmallProfile();
  profile.functions[0].name = profile.strings.Intern("a_name_that_is_stored_as_it_is");
  EXPECT_NE(EncodePprof(profile).find("a_name_that_is_stored_as_it_is"), std::string::npos);
  profile.functions[0].name = profile.strings.Intern(std::string(4000, 'x'));
  EXPECT_LT(EncodePprof(profile).size(), 1000u);
}

TEST(PprofWriter, ADescriptorGetsTheSameBytesAsAString) {
  Folder folder;
  const int fd = open(folder.File("p").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(WritePprof(SmallProfile(), fd).ok());
  close(fd);
  EXPECT_EQ(ReadWhole(folder.File("p")), EncodePprof(SmallProfile()));
}

TEST(PprofWriter, AFullDiskIsAnError) {
  const int fd = open("/dev/full", O_WRONLY);
  const absl::Status status = WritePprof(SmallProfile(), fd);
  close(fd);
  EXPECT_EQ(std::string(status.message()), "could not write (No space left on device)");
}

TEST(PprofWriter, StringsLongerThanAnyBufferSurvive) {
  Profile profile = SmallProfile();
  std::string long_name;
  std::mt19937 random(1);
  while (long_name.size() < 300000) long_name += static_cast<char>('a' + random() % 26);
  profile.functions[0].name = profile.strings.Intern(long_name);
  const auto read = DecodePprof(EncodePprof(profile), "long");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(profile, *read);
}

TEST(PprofWriter, GoReadsIt) {
  Folder folder;
  const std::string file = folder.Write("small.pb.gz", EncodePprof(SmallProfile()));
  const auto raw = GoPprof("-raw", file);
  EXPECT_EQ(raw.status, 0) << raw.output;
  EXPECT_THAT(raw.output, HasSubstr("PeriodType: space bytes"));
  EXPECT_THAT(raw.output, HasSubstr("Period: 524288"));
  EXPECT_THAT(raw.output,
              HasSubstr("alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]"));
  // Leaf first. Go numbers locations as it likes: 1.19 in the order of the stacks, 1.26 by address.
  const auto number = [&](const std::string& address) {
    std::smatch found;
    return std::regex_search(raw.output, found, std::regex("(\\d+): " + address + " ")) ? found[1].str()
                                                                                        : "none at " + address;
  };
  EXPECT_THAT(raw.output, HasSubstr("10       1000          4        400: " + number("0x7f0000000010") + " " +
                                    number("0x400200") + " " + number("0x400100")));
  EXPECT_THAT(raw.output, HasSubstr("0x7f0000000010 M=2 x_alloc"));
  EXPECT_THAT(raw.output, HasSubstr("1: 0x400000/0x500000/0x1000 /usr/bin/app 00112233 [FN]"));
  EXPECT_THAT(GoPprof("-comments", file).output, HasSubstr("total inuse_space: 496 ± 12"));
}

// ---- Reading what others write ----

TEST(PprofReader, PlainProtobufIsReadToo) {
  const auto read = DecodePprof(Unpack(EncodePprof(SmallProfile())), "plain");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(SmallProfile(), *read);
}

TEST(PprofReader, SeveralGzipMembersAreOneFile) {
  const std::string bytes = Unpack(EncodePprof(SmallProfile()));
  const auto read = DecodePprof(Gzip(bytes.substr(0, 100)) + Gzip(bytes.substr(100)), "members");
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(SmallProfile(), *read);
}

TEST(PprofReader, FilesAndPipesAreRead) {
  Folder folder;
  const std::string file = folder.Write("small.pb.gz", EncodePprof(SmallProfile()));
  ASSERT_TRUE(ReadPprofFile(file).ok());
  const int saved = dup(STDIN_FILENO);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string bytes = ReadWhole(file);
  ASSERT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(ends[1]);
  dup2(ends[0], STDIN_FILENO);
  const auto read = ReadPprofFile("-");
  dup2(saved, STDIN_FILENO);
  close(ends[0]);
  close(saved);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(SmallProfile(), *read);
}

TEST(PprofReader, IdsAndOrderAreFree) {
  pb::Profile profile = Minimal();
  pb::Function* function = profile.add_function();
  function->set_id(1ull << 60);
  function->set_name(1);
  pb::Location* location = profile.add_location();
  location->set_id(77);
  location->add_line()->set_function_id(1ull << 60);
  pb::Sample* sample = profile.add_sample();
  sample->add_location_id(77);
  sample->add_value(-5);
  std::string tables, rest;
  profile.SerializeToString(&tables);
  // The sample first, the string table last, and its numbers not packed.
  pb::Profile without = profile;
  without.clear_sample();
  without.SerializeToString(&rest);
  const std::string unpacked_sample("\x12\x0d\x08\x4d\x10\xfb\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15);
  const auto read = DecodePprof(unpacked_sample + rest, "others");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ValuesOf(0)[0], -5);
  EXPECT_EQ(read->FramesOf(read->samples[0])[0], 0u);
  EXPECT_EQ(read->strings[read->functions[0].name], "n");
}

TEST(PprofReader, UnknownFieldsAreSkipped) {
  const std::string bytes = Unpack(EncodePprof(SmallProfile())) + std::string(
                                                                      "\x7a\x03"
                                                                      "abc"
                                                                      "\x80\x01\x05",
                                                                      8);
  EXPECT_TRUE(DecodePprof(bytes, "newer").ok());
}

// ---- What cannot be read: one message each ----

TEST(PprofErrors, MissingFile) {
  EXPECT_EQ(std::string(ReadPprofFile("/no/such.pb.gz").status().message()),
            "/no/such.pb.gz: cannot be read (No such file or directory). Check the path and its permissions.");
}

TEST(PprofErrors, Folder) {
  EXPECT_THAT(std::string(ReadPprofFile("/tmp").status().message()),
              HasSubstr("/tmp: cannot be read (Is a directory)"));
}

TEST(PprofErrors, Empty) {
  EXPECT_EQ(ErrorOf(""), "x.pb.gz: empty file. The disk was probably full when it was written; use another snapshot.");
}

TEST(PprofErrors, EmptyStandardInput) {
  EXPECT_EQ(DecodePprof("", "standard input").status().message(),
            "standard input: is empty. Did the command before it fail?");
}

// `leaks -` reads its file twice.
TEST(PprofRead, StandardInputTwice) {
  const Folder folder;
  const std::string path = folder.Write("small.pb.gz", EncodePprof(SmallProfile()));
  const int before = dup(STDIN_FILENO), file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup2(file, STDIN_FILENO), STDIN_FILENO);
  for (int i = 0; i < 2; ++i) {
    const auto read = ReadPprofFile("-");
    EXPECT_TRUE(read.ok()) << i << ": " << read.status();
  }
  dup2(before, STDIN_FILENO);
  close(before);
  close(file);
}

TEST(PprofErrors, TruncatedGzip) {
  const std::string bytes = EncodePprof(SmallProfile());
  EXPECT_EQ(
      ErrorOf(bytes.substr(0, 200)),
      "x.pb.gz: truncated at byte 200 (gzip trailer missing). The process was probably killed while writing; use the "
      "previous snapshot.");
  EXPECT_THAT(ErrorOf(bytes.substr(0, bytes.size() - 1)), HasSubstr("gzip trailer missing"));
}

TEST(PprofErrors, DamagedGzip) {
  std::string bytes = EncodePprof(SmallProfile());
  bytes[bytes.size() - 8] ^= 1;  // the checksum
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("(incorrect data check). Copy it again, or use another snapshot."));
  EXPECT_THAT(ErrorOf(EncodePprof(SmallProfile()) + "tail"), HasSubstr("4 bytes after the end of the gzip data"));
}

TEST(PprofErrors, NotAProfileAtAll) {
  EXPECT_THAT(ErrorOf("#!/bin/sh\necho hello\n"), HasSubstr("x.pb.gz: not a pprof profile (not gzip; as protobuf: "));
  EXPECT_EQ(
      ErrorOf(Gzip("\x7f"
                   "ELF is no profile")),
      "x.pb.gz: a gzip file that does not contain a pprof profile. Name a file such as app.4242.0001.heap.pb.gz.");
}

TEST(PprofErrors, BadVarintAndBadLength) {
  EXPECT_THAT(ErrorOf(Gzip(std::string("\x48") + std::string(11, '\xff'))),
              HasSubstr("damaged or not a pprof profile (a number of more than 10 bytes)"));
  EXPECT_THAT(ErrorOf(Gzip("\x0a\x7f")), HasSubstr("damaged or not a pprof profile (a field extends past the end)"));
  EXPECT_THAT(ErrorOf("\x0b\x01"), HasSubstr("as protobuf: a field of unknown type)"));
}

TEST(PprofErrors, EachIndexOutOfRangeIsNamed) {
  const auto error = [](auto change) {
    pb::Profile profile = Minimal();
    change(&profile);
    return ErrorOf(Gzip(profile.SerializeAsString()));
  };
  EXPECT_THAT(error([](pb::Profile* p) { p->mutable_sample_type(0)->set_type(9); }),
              HasSubstr("(string 9 is used, but the table has 2)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->mutable_sample_type(0)->set_type(-1); }),
              HasSubstr("(string -1 is used, but the table has 2)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->add_comment(2); }), HasSubstr("(string 2 is used, but the table has 2)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->add_sample()->add_location_id(4); }),
              HasSubstr("(location id 4 is used but not defined)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->add_sample(); }),
              HasSubstr("(sample 1 has 0 values, but the profile has 1 sample types)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->add_mapping(); }), HasSubstr("(a mapping has id 0)"));
  EXPECT_THAT(error([](pb::Profile* p) {
                p->add_function()->set_id(5);
                p->add_function()->set_id(5);
              }),
              HasSubstr("(two functions have id 5)"));
  EXPECT_THAT(error([](pb::Profile* p) {
                p->add_location()->set_id(1);
                p->mutable_location(0)->set_mapping_id(3);
              }),
              HasSubstr("(mapping id 3 is used but not defined)"));
  EXPECT_THAT(error([](pb::Profile* p) {
                p->add_location()->set_id(1);
                p->mutable_location(0)->add_line();
              }),
              HasSubstr("(function id 0 is used but not defined)"));
  EXPECT_THAT(error([](pb::Profile* p) {
                p->add_sample()->add_value(1);
                p->mutable_sample(0)->add_label();
              }),
              HasSubstr("(a label has no key)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->clear_sample_type(); }), HasSubstr("(no sample type)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->clear_string_table(); }), HasSubstr("(no string table)"));
  EXPECT_THAT(error([](pb::Profile* p) { p->set_string_table(0, "x"); }), HasSubstr("(string_table[0] is not empty)"));
  EXPECT_THAT(error([](pb::Profile* p) {
                for (int i = 0; i < 300; ++i) p->add_sample_type()->set_type(1);
              }),
              HasSubstr("(more than 256 sample types)"));
}

TEST(PprofErrors, TextThatIsNotUtf8) {
  std::string bytes = Minimal().SerializeAsString();
  bytes += std::string(
      "\x32\x03"
      "a\xff"
      "b",
      5);
  EXPECT_THAT(ErrorOf(Gzip(bytes)), HasSubstr("(string 2 is not UTF-8 (byte 0xff at 1))"));
}

TEST(PprofErrors, ABombIsRefusedAtTheLimit) {
  std::string strings;  // a profile so far: empty strings without end
  for (int i = 0; i < 2 << 20; ++i) strings += std::string("\x32\x00", 2);
  EXPECT_EQ(ErrorOf(Gzip(strings), 1 << 20),
            "x.pb.gz: larger than 1 MiB when unpacked, so it is not a profile. Check where the file comes from.");
  // And early where it cannot be a profile: zeros are no field.
  EXPECT_THAT(ErrorOf(Gzip(std::string(16 << 20, '\0'))),
              HasSubstr("a gzip file that does not contain a pprof profile"));
}

TEST(PprofErrors, FilesAboveTheLimitAreNotEvenRead) {
  Folder folder;
  const std::string file = folder.Write("sparse", "x");
  ASSERT_EQ(truncate(file.c_str(), off_t{5} << 30), 0);
  EXPECT_THAT(std::string(ReadPprofFile(file).status().message()), HasSubstr("larger than 4096 MiB"));
  EXPECT_THAT(std::string(ReadPprofFile("/dev/zero", 1 << 20).status().message()), HasSubstr("larger than 1 MiB"));
}

// ---- Hostile input: any answer, no crash (the asan preset watches) ----

TEST(PprofHostile, TruncatedAtEveryByte) {
  const std::string packed = EncodePprof(SmallProfile()), plain = Unpack(packed);
  for (size_t i = 0; i < packed.size(); ++i) EXPECT_FALSE(DecodePprof(std::string_view(packed).substr(0, i), "t").ok());
  for (size_t i = 0; i < plain.size(); ++i) (void)DecodePprof(std::string(plain.substr(0, i)), "t").ok();
}

TEST(PprofHostile, FlippedBits) {
  std::mt19937 random(20240101);
  const std::string plain = Unpack(EncodePprof(SmallProfile()));
  int read = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string damaged = plain;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) damaged[random() % damaged.size()] ^= 1 << random() % 8;
    const auto profile = DecodePprof(damaged, "f");
    if (!profile.ok()) continue;
    ++read;
    (void)EncodePprof(*profile);
    for (size_t k = 0; k < profile->sample_types.size(); ++k) (void)profile->Total(k);
  }
  EXPECT_GT(read, 1000);  // many flips only change a number: what is read must be whole, too
}

TEST(PprofHostile, RandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    for (const auto& decoded : {DecodePprof(bytes, "r"), DecodePprof(Gzip(bytes), "r")}) {
      ASSERT_FALSE(decoded.ok()) << i;
      ASSERT_EQ(decoded.status().message().substr(0, 3), "r: ") << decoded.status();
    }
  }
}

}  // namespace
}  // namespace holdfast
