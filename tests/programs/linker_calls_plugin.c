// Its constructor takes a lock of the program (linker_calls.c).
#include <pthread.h>

extern pthread_mutex_t linker_calls_lock;

__attribute__((constructor)) static void TakeLock(void) {
  pthread_mutex_lock(&linker_calls_lock);
  pthread_mutex_unlock(&linker_calls_lock);
}
