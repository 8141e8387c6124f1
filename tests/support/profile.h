// Profiles as a stranger reads them: gunzip, then Google's own protobuf library over pprof's published schema. Shares
// no code with the writer under test.
//
//     Decoded heap = Decode(dir + "/prog.42.0001.heap.pb.gz");
//     EXPECT_EQ(heap.SumLeaf("allocate_plain").at("inuse_space"), 4096);
#ifndef HOLDFAST_TESTS_SUPPORT_PROFILE_H_
#define HOLDFAST_TESTS_SUPPORT_PROFILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::testing {

// One value for each sample type, by its name: alloc_objects, inuse_space, contentions, delay …
using Values = std::map<std::string, int64_t>;

struct DecodedFrame {
  uint64_t address;
  std::string mapping;                 // path; empty when the location names none
  std::vector<std::string> functions;  // innermost inlined one first
  std::vector<std::string> lines;      // "file:line" of each, where known
};

struct DecodedSample {
  std::vector<DecodedFrame> frames;  // leaf first
  Values values;
  std::map<std::string, std::string> labels;
  std::map<std::string, int64_t> numbers;  // numeric labels
  bool Has(const std::string& function) const;
  bool LeafIs(const std::string& function) const;  // the innermost function of the leaf frame
};

struct Decoded {
  std::string error;  // empty: whole and consistent, see Decode
  std::string path;
  std::vector<std::string> types;  // in the file's order: "inuse_space/bytes"
  std::string default_type;
  std::string period_type;
  int64_t period = 0, time_nanos = 0, duration_nanos = 0;
  std::vector<DecodedSample> samples;
  std::vector<std::string> mappings;  // paths, in order
  std::vector<std::string> comments, records;

  // The value of the comment or record `key: value`.
  std::optional<std::string> Comment(const std::string& key) const;
  // The number in it; -1 when there is none.
  int64_t CommentNumber(const std::string& key) const;
  // The variance of the estimated total of `type` ("delay"), from the comment `total delay: 5000 ± 98` (95 %).
  double VarianceOf(const std::string& type) const;

  Values SumLeaf(const std::string& function) const;
  Values SumAny(const std::string& function) const;
  Values SumLeafWhere(const std::string& function, const std::string& label, const std::string& value) const;
  Values Total() const;
  bool Names(const std::string& function) const;  // in any frame of any sample
  std::string Summary() const;                    // for failure messages
};

// Reads and checks a file: gzip whole, protobuf whole, ids 1..N, strings valid UTF-8, addresses non-zero and unique,
// values not negative, 0 ≤ inuse ≤ alloc, at most four value types. The first violation is in `error`.
Decoded Decode(const std::string& path);

// A file name in its parts: <program>.<pid>.<seq>.<kind>.pb.gz
struct ProfileName {
  std::string path, program, kind;
  int64_t pid = 0, seq = 0;
};
// All profiles in a folder, ordered by pid, kind, seq. Files that look otherwise are in `others` when given.
std::vector<ProfileName> ListProfiles(const std::string& directory, std::vector<std::string>* others = nullptr);

// The newest of each process and kind. pids repeat in containers, so the process is the `process` comment.
std::vector<Decoded> Newest(const std::string& directory, const std::string& kind);

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_PROFILE_H_
