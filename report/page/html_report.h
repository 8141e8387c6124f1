// Makes one HTML file from profiles: loads them, fills the page's template, writes the file. The command line is in
// report/cmd/add_html.cc; `holdfast run --html` uses this as well.
//
// The data is raw deflate in base64, so nothing in a profile can become markup. The title is the only text, and is
// escaped. The newest profile of each series is included unchanged for the page's "download", if all of them together
// have at most `max_embedded_bytes`.
#ifndef HOLDFAST_REPORT_PAGE_HTML_REPORT_H_
#define HOLDFAST_REPORT_PAGE_HTML_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/atomic_file.h"

namespace holdfast {

struct HtmlOptions {
  std::vector<std::string> files;          // profiles and folders of them; "-" is standard input
  std::vector<std::string> base;           // the same, for comparison
  std::string output = "report.html";      // "-" is standard output
  std::vector<std::string> plumbing = {};  // additional patterns for plumbing (plumbing.h)
  bool ended = false;                      // adds what processes held that ended before the others (live_processes.h)
  bool sources = true;                     // include source lines around those that frames name
  uint64_t max_embedded_bytes = 4 << 20;
};

// Returns the whole file as text. Prints to `err` what was left out, one line each.
absl::StatusOr<std::string> RenderHtml(const HtmlOptions& options, std::ostream& err);

// Replaces `path` atomically. Refuses to replace a file that is not an HTML report.
absl::Status WriteHtml(const std::string& path, const std::string& html, Readers readers = Readers::kUsual);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_HTML_REPORT_H_
