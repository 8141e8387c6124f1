// On a terminal: a pseudo-terminal takes the place of standard error.
#include "report/base/progress.h"

#include <gmock/gmock.h>
#include <pty.h>
#include <unistd.h>

#include <string>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class Terminal {
 public:
  Terminal() : kept_(dup(STDERR_FILENO)) {
    int other = -1;
    EXPECT_EQ(openpty(&master_, &other, nullptr, nullptr, nullptr), 0);
    dup2(other, STDERR_FILENO);
    close(other);
  }
  ~Terminal() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    close(master_);
  }
  // What came until `text` was in it.
  std::string ReadUntil(const std::string& text) {
    char buffer[256];
    while (seen_.find(text) == std::string::npos) {
      const ssize_t n = read(master_, buffer, sizeof buffer);
      if (n <= 0) break;
      seen_.append(buffer, static_cast<size_t>(n));
    }
    return seen_;
  }
  void Write(const std::string& text) {
    EXPECT_EQ(write(STDERR_FILENO, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  int kept_, master_ = -1;
  std::string seen_;
};

TEST(ProgressTest, LongWorkShowsALineThatIsRemovedAgain) {
  Terminal terminal;
  Progress progress("reading profile");
  progress.Show(11, 80);
  EXPECT_THAT(terminal.ReadUntil("…"), HasSubstr("reading profile 12 of 80 …"));
  progress.Clear();
  terminal.Write("end");
  EXPECT_THAT(terminal.ReadUntil("end"), ::testing::EndsWith("\r\x1b[Kend"));
}

TEST(ProgressTest, QuickWorkSaysNothing) {
  Terminal terminal;
  {
    Progress progress("reading profile");
    progress.Show(1, 2);
  }
  terminal.Write("end");
  EXPECT_EQ(terminal.ReadUntil("end"), "end");
}

}  // namespace
}  // namespace holdfast
