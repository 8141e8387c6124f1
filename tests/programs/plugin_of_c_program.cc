// A C++ plugin for a host in C: functions that allocate, and that throw and catch.
#include <stdexcept>

extern "C" {
void AllocatesInPlugin(int times) {
  for (int i = 0; i < times; ++i) {
    int* volatile one = new int(i);
    int* volatile many = new int[100];
    delete[] many;
    delete one;
  }
}
int ThrowsInPlugin(int times) {
  int caught = 0;
  for (int i = 0; i < times; ++i) {
    try {
      try {
        throw std::logic_error("no");
      } catch (...) {
        throw;
      }
    } catch (const std::logic_error&) {
      ++caught;
    }
  }
  return caught;
}
}
