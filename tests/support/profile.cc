#include "tests/support/profile.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "holdfast.pb.h"
#include "profile.pb.h"

namespace holdfast::testing {
namespace {

bool Gunzip(const std::string& path, std::string* bytes, std::string* error) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file) {
    *error = "cannot be opened";
    return false;
  }
  std::string packed;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) packed.append(buffer, n);
  fclose(file);
  z_stream stream = {};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    state = inflate(&stream, Z_NO_FLUSH);
    bytes->append(buffer, sizeof buffer - stream.avail_out);
  }
  const bool whole = state == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!whole) *error = "is not one whole gzip member";
  return whole;
}

bool IsUtf8(const std::string& s) {
  for (size_t i = 0; i < s.size();) {
    const auto lead = static_cast<unsigned char>(s[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || i + length > s.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(s[i + k]) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

void Add(Values* sum, const Values& values) {
  for (const auto& [name, value] : values) (*sum)[name] += value;
}

}  // namespace

bool DecodedSample::Has(const std::string& function) const {
  for (const DecodedFrame& frame : frames) {
    if (std::find(frame.functions.begin(), frame.functions.end(), function) != frame.functions.end()) return true;
  }
  return false;
}

bool DecodedSample::LeafIs(const std::string& function) const {
  return !frames.empty() && !frames[0].functions.empty() && frames[0].functions[0] == function;
}

std::optional<std::string> Decoded::Comment(const std::string& key) const {
  for (const auto* list : {&comments, &records}) {
    for (const std::string& comment : *list) {
      if (comment.rfind(key + ": ", 0) == 0) return comment.substr(key.size() + 2);
    }
  }
  return std::nullopt;
}

int64_t Decoded::CommentNumber(const std::string& key) const {
  const auto text = Comment(key);
  return text ? std::atoll(text->c_str()) : -1;
}

double Decoded::VarianceOf(const std::string& type) const {
  const std::string interval = Comment("total " + type).value_or("0 ± 0");
  const double standard_error = std::stod(interval.substr(interval.rfind(' ') + 1)) / 1.96;
  return standard_error * standard_error;
}

Values Decoded::SumLeaf(const std::string& function) const {
  Values sum;
  for (const auto& type : types) sum[type.substr(0, type.find('/'))] = 0;
  for (const DecodedSample& sample : samples) {
    if (sample.LeafIs(function)) Add(&sum, sample.values);
  }
  return sum;
}

Values Decoded::SumAny(const std::string& function) const {
  Values sum;
  for (const auto& type : types) sum[type.substr(0, type.find('/'))] = 0;
  for (const DecodedSample& sample : samples) {
    if (sample.Has(function)) Add(&sum, sample.values);
  }
  return sum;
}

Values Decoded::SumLeafWhere(const std::string& function, const std::string& label, const std::string& value) const {
  Values sum;
  for (const auto& type : types) sum[type.substr(0, type.find('/'))] = 0;
  for (const DecodedSample& sample : samples) {
    const auto found = sample.labels.find(label);
    if (found != sample.labels.end() && found->second == value && sample.LeafIs(function)) Add(&sum, sample.values);
  }
  return sum;
}

Values Decoded::Total() const {
  Values sum;
  for (const auto& type : types) sum[type.substr(0, type.find('/'))] = 0;
  for (const DecodedSample& sample : samples) Add(&sum, sample.values);
  return sum;
}

bool Decoded::Names(const std::string& function) const {
  return std::any_of(samples.begin(), samples.end(), [&](const DecodedSample& s) { return s.Has(function); });
}

std::string Decoded::Summary() const {
  std::ostringstream text;
  text << path << (error.empty() ? "" : " BAD: " + error) << "\n";
  for (const std::string& comment : comments) text << "  # " << comment << "\n";
  std::map<std::string, Values> leaves;
  for (const DecodedSample& sample : samples) {
    std::string name = "(no frames)";
    if (!sample.frames.empty()) name = sample.frames[0].functions.empty() ? "(no name)" : sample.frames[0].functions[0];
    Add(&leaves[name], sample.values);
  }
  for (const auto& [name, values] : leaves) {
    text << "  " << name << ":";
    for (const auto& [type, value] : values) text << " " << type << "=" << value;
    text << "\n";
  }
  return text.str();
}

namespace {

std::string TextOf(const records::Times& times) {
  std::ostringstream text;
  for (const auto& bucket : times.bucket()) text << " " << bucket.from_ns() << ":" << bucket.count();
  return text.str();
}

// The typed records as lines, `key: value` where there is one value.
void AddRecords(const records::Profile& records, Decoded* result) {
  const auto add = [&](const std::string& key, const auto& value) {
    std::ostringstream line;
    line << key << ": " << value;
    result->records.push_back(line.str());
  };
  const records::Process& process = records.process();
  if (process.profiled_size() > 0) {
    std::string kinds;
    for (const std::string& kind : process.profiled()) kinds += (kinds.empty() ? "" : " ") + kind;
    add("profiled", kinds);
  }
  if (!process.unseen_waits().empty()) add("unseen waits", process.unseen_waits());
  if (process.resident_bytes() != 0) add("resident_bytes", process.resident_bytes());
  if (records.has_counters()) {
    add("own table_steps", records.counters().own_table_steps());
    add("own memory_probes", records.counters().own_memory_probes());
  }
  if (records.has_account()) add("memory", records.account().total());
  for (const std::string& from : records.merged().from()) add("merged from", from);
  const records::Locks& locks = records.locks();
  if (records.has_locks()) add("lock_samples", locks.samples());
  for (const records::LockKind& kind : locks.kind()) {
    add(kind.kind() + " contentions", kind.contentions());
    add(kind.kind() + " acquired", kind.acquired());
    add(kind.kind() + " delay_ns", kind.delay_ns());
    add(kind.kind() + " gap_ns", kind.gap_ns());
  }
  for (const records::LockSite& site : locks.site()) {
    add("lock site " + std::to_string(site.stack()) + " " + site.kind() +
            (site.is_holder() ? " hold_times" : " wait_times"),
        "longest_ns " + std::to_string(site.longest_ns()) + TextOf(site.times()));
  }
}

}  // namespace

Decoded Decode(const std::string& path) {
  Decoded result;
  result.path = path;
  std::string bytes;
  if (!Gunzip(path, &bytes, &result.error)) return result;
  perftools::profiles::Profile profile;
  if (!profile.ParseFromString(bytes)) {
    result.error = "is not a whole protobuf message of pprof's schema";
    return result;
  }
  const auto complain = [&](const std::string& what) {
    if (result.error.empty()) result.error = what;
  };
  const auto text = [&](int64_t index) -> std::string {
    if (index < 0 || index >= profile.string_table_size()) {
      complain("string index " + std::to_string(index) + " is outside the table");
      return "";
    }
    return profile.string_table(static_cast<int>(index));
  };
  if (profile.string_table_size() == 0 || !profile.string_table(0).empty()) complain("string_table[0] is not empty");
  for (const std::string& s : profile.string_table()) {
    if (!IsUtf8(s)) complain("a string is not UTF-8");
  }

  std::vector<std::string> names;
  for (const auto& type : profile.sample_type()) {
    names.push_back(text(type.type()));
    result.types.push_back(text(type.type()) + "/" + text(type.unit()));
  }
  if (names.empty() || names.size() > 4) complain("has " + std::to_string(names.size()) + " value types");
  result.default_type = text(profile.default_sample_type());
  result.period_type = text(profile.period_type().type()) + "/" + text(profile.period_type().unit());
  result.period = profile.period();
  result.time_nanos = profile.time_nanos();
  result.duration_nanos = profile.duration_nanos();
  for (const int64_t comment : profile.comment()) result.comments.push_back(text(comment));
  for (const int64_t record : profile.record()) result.records.push_back(text(record));
  records::Profile records;
  if (!records.ParseFromString(bytes)) complain("its records are not those of proto/holdfast.proto");
  AddRecords(records, &result);

  for (int i = 0; i < profile.mapping_size(); ++i) {
    const auto& mapping = profile.mapping(i);
    if (mapping.id() != static_cast<uint64_t>(i) + 1) complain("mapping ids are not 1..N");
    if (mapping.memory_start() >= mapping.memory_limit()) complain("an empty mapping");
    result.mappings.push_back(text(mapping.filename()));
  }
  for (int i = 0; i < profile.function_size(); ++i) {
    const auto& function = profile.function(i);
    if (function.id() != static_cast<uint64_t>(i) + 1) complain("function ids are not 1..N");
    if (text(function.name()).empty()) complain("a function without a name");
  }
  std::vector<DecodedFrame> frames;
  std::set<uint64_t> addresses;
  for (int i = 0; i < profile.location_size(); ++i) {
    const auto& location = profile.location(i);
    DecodedFrame frame;
    if (location.id() != static_cast<uint64_t>(i) + 1) complain("location ids are not 1..N");
    if (location.address() == 0 || !addresses.insert(location.address()).second)
      complain("an address is 0 or used twice");
    frame.address = location.address();
    if (location.mapping_id() > static_cast<uint64_t>(profile.mapping_size())) {
      complain("a location names a mapping that is not there");
    } else if (location.mapping_id()) {
      frame.mapping = result.mappings[location.mapping_id() - 1];
    }
    if (location.line_size() == 0) complain("a location without a function");
    for (const auto& line : location.line()) {
      if (line.function_id() == 0 || line.function_id() > static_cast<uint64_t>(profile.function_size())) {
        complain("a line names a function that is not there");
        continue;
      }
      const auto& function = profile.function(static_cast<int>(line.function_id()) - 1);
      frame.functions.push_back(text(function.name()));
      frame.lines.push_back(text(function.filename()) + ":" + std::to_string(line.line()));
    }
    frames.push_back(std::move(frame));
  }
  for (const auto& sample : profile.sample()) {
    DecodedSample decoded;
    if (sample.value_size() != static_cast<int>(names.size())) complain("a sample has not one value for each type");
    for (int i = 0; i < sample.value_size() && i < static_cast<int>(names.size()); ++i) {
      if (sample.value(i) < 0) complain("a negative value");
      decoded.values[names[static_cast<size_t>(i)]] = sample.value(i);
    }
    if (decoded.values.count("inuse_space") && decoded.values.count("alloc_space") &&
        (decoded.values["inuse_space"] > decoded.values["alloc_space"] ||
         decoded.values["inuse_objects"] > decoded.values["alloc_objects"])) {
      complain("more in use than allocated");
    }
    for (const uint64_t id : sample.location_id()) {
      if (id == 0 || id > frames.size())
        complain("a sample names a location that is not there");
      else
        decoded.frames.push_back(frames[id - 1]);
    }
    for (const auto& label : sample.label()) {
      if (label.str())
        decoded.labels[text(label.key())] = text(label.str());
      else
        decoded.numbers[text(label.key())] = label.num();
    }
    result.samples.push_back(std::move(decoded));
  }
  return result;
}

std::vector<ProfileName> ListProfiles(const std::string& directory, std::vector<std::string>* others) {
  static const std::regex pattern(R"((.+)\.([0-9]+)\.([0-9]{4,})\.([a-z]+)\.pb\.gz)");
  std::vector<ProfileName> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    std::smatch match;
    if (name[0] != '.' && std::regex_match(name, match, pattern)) {
      result.push_back(
          {entry.path(), match[1], match[4], std::atoll(match[2].str().c_str()), std::atoll(match[3].str().c_str())});
    } else if (others) {
      others->push_back(name);
    }
  }
  std::sort(result.begin(), result.end(), [](const ProfileName& a, const ProfileName& b) {
    return std::tie(a.pid, a.kind, a.seq) < std::tie(b.pid, b.kind, b.seq);
  });
  return result;
}

std::vector<Decoded> Newest(const std::string& directory, const std::string& kind) {
  std::vector<Decoded> result;
  std::map<std::string, size_t> place;
  for (const ProfileName& name : ListProfiles(directory)) {
    if (name.kind != kind) continue;
    Decoded decoded = Decode(name.path);
    const std::string process = decoded.Comment("process").value_or(name.path);
    const auto [found, fresh] = place.emplace(process, result.size());
    if (fresh)
      result.push_back(std::move(decoded));
    else
      result[found->second] = std::move(decoded);
  }
  return result;
}

}  // namespace holdfast::testing
