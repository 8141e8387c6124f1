#include "report/page/html_report.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/printable.h"
#include "report/base/progress.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/page/filled_page.h"
#include "report/page/html_leaks.h"
#include "report/page/report_builder.h"
#include "report/page/web_template.h"

namespace holdfast {
namespace {

constexpr size_t kMaxSourceBytes = 256 << 10;

std::string Deflated(std::string_view bytes) {
  z_stream stream{};
  const int level = bytes.size() > (8 << 20) ? 6 : 9;  // level 9 takes five times as long and saves 3 % on large data
  deflateInit2(&stream, level, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  // In steps, because zlib counts in 32 bits.
  size_t in_left = bytes.size(), out_left = out.size();
  constexpr size_t kStep = 1 << 30;
  int result = Z_OK;
  while (result == Z_OK || result == Z_BUF_ERROR) {
    const size_t in_step = std::min(in_left, kStep), out_step = std::min(out_left, kStep);
    stream.avail_in = static_cast<uInt>(in_step);
    stream.avail_out = static_cast<uInt>(out_step);
    result = deflate(&stream, in_step == in_left ? Z_FINISH : Z_NO_FLUSH);
    in_left -= in_step - stream.avail_in;
    out_left -= out_step - stream.avail_out;
  }
  deflateEnd(&stream);
  out.resize(out.size() - out_left);
  return out;
}

std::string Base64(std::string_view bytes) { return absl::Base64Escape(absl::string_view(bytes.data(), bytes.size())); }

absl::Status AddAll(const std::vector<std::string>& arguments, bool is_base, bool adds_ended, ReportBuilder* data,
                    HtmlLeaks* leaks, std::ostream& err) {
  if (arguments.empty()) return absl::OkStatus();
  Progress progress("reading profiles");
  ReadSetOptions options;
  options.keep = KeepProfiles::kNone;
  std::vector<std::string> twice;
  options.each = [&](const ProfileFile& file, bool newest) {
    if (!data->Add(file, is_base, newest)) {
      twice.push_back(file.path);
    } else if (leaks != nullptr) {
      leaks->See(file);
    }
  };
  options.progress = [&](size_t done, size_t all) { progress.Show(done, all); };
  const auto set = ReadProfileSet(arguments, options);
  progress.Clear();
  if (!set.ok()) return set.status();
  for (const std::string& path : data->Arrange(*set, is_base)) {
    auto profile = ReadProfileToView(path);
    if (!profile.ok()) return profile.status();
    ProfileFile file = DescribeFile(path, *profile);
    file.profile = std::make_shared<Profile>(*std::move(profile));
    data->TakeDetails(file, is_base);
  }
  if (!adds_ended) data->MarkEnded(*set, is_base);
  for (const std::string& warning : set->warnings) SayTo(err, warning);
  for (const std::string& file : twice) {
    err << fmt::format("holdfast: {}: skipped, because another file has the same snapshot.\n", Printable(file));
  }
  return absl::OkStatus();
}

// Returns arguments for a command: many files of one folder are replaced by the folder.
std::vector<std::string> AsNamed(const std::vector<std::string>& files) {
  constexpr size_t kMaxNamed = 3;
  if (files.size() <= kMaxNamed) return files;
  const std::filesystem::path folder = std::filesystem::path(files[0]).parent_path();
  const bool is_one = std::all_of(files.begin(), files.end(), [&](const std::string& file) {
    return std::filesystem::path(file).parent_path() == folder;
  });
  return is_one ? std::vector{folder.empty() ? std::string(".") : folder.string()} : files;
}

// Returns data blocks for the newest files: `<script type="application/x-pprof" data-name="…">base64</script>`.
std::string Embedded(const std::vector<std::string>& files, uint64_t max_bytes, std::ostream& err) {
  std::string blocks;
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    if (file == "-") continue;
    std::ifstream in(file, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    bytes += content.size();
    blocks += fmt::format("<script type=\"application/x-pprof\" data-name=\"{}\">{}</script>\n",
                          MarkupEscaped(std::filesystem::path(file).filename().string()), Base64(content));
  }
  if (bytes <= max_bytes) return blocks;
  if (max_bytes > 0) {
    err << fmt::format(
        "holdfast: {} profile{} of {}: not embedded for download, because the report would become too large (--embed sets the limit).\n",
        files.size(), files.size() == 1 ? "" : "s", FormatSize(static_cast<int64_t>(bytes)));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> RenderHtml(const HtmlOptions& options, std::ostream& err) {
  if (WebTemplate().empty()) {
    return absl::UnimplementedError(
        "html: this holdfast was built without the report's page (no node at build time, or -DHOLDFAST_WEB=OFF). "
        "Install nodejs and npm and build again, or use holdfast top.");
  }
  // Report invalid patterns first, whatever the profiles contain.
  if (const auto patterns = Plumbing::Make(Profile(), options.plumbing); !patterns.ok()) return patterns.status();
  ReportBuilder data(options.plumbing, AsNamed(options.files), !options.base.empty());
  HtmlLeaks leaks;
  if (absl::Status status = AddAll(options.base, true, options.ended, &data, nullptr, err); !status.ok()) return status;
  if (absl::Status status = AddAll(options.files, false, options.ended, &data, &leaks, err); !status.ok())
    return status;
  if (!data.CanCompare()) {
    return absl::FailedPreconditionError(
        fmt::format("--base {}: has no metric in common with {}. Compare profiles of one kind.", options.base[0],
                    options.files[0]));
  }
  if (absl::Status status = leaks.Find(options.plumbing, &data); !status.ok()) return status;
  if (options.sources) data.AddSources(kMaxSourceBytes);
  const std::string title = MarkupEscaped(data.Title());
  const std::string files = Embedded(data.NewestFiles(), options.max_embedded_bytes, err);
  const std::string encoded = Base64(Deflated(data.Encode()));
  return FilledPage({.title = title, .data = encoded, .files = files});
}

absl::Status WriteHtml(const std::string& path, const std::string& html, Readers readers) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
    std::ifstream in(path, std::ios::binary);
    std::string start(15, '\0');
    in.read(start.data(), static_cast<std::streamsize>(start.size()));
    if (in.gcount() > 0 && start != "<!doctype html>") {
      return absl::FailedPreconditionError(fmt::format(
          "{}: already exists and is not an HTML report, so it was not replaced. Choose another name with -o.", path));
    }
  }
  AtomicFile file(path, std::cout, readers);
  file.Write(html);
  return file.Finish();
}

}  // namespace holdfast
