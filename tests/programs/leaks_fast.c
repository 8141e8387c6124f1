// Eight threads that lose blocks of 3 KB without a pause worth mentioning: their heaps grow while somebody reads them. Ends
// after about 20 s.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* Lose(void* unused) {
  for (int i = 0; i < 10000; ++i) {
    char* const used = malloc(20000);
    memset(used, 1, 20000);
    char* volatile lost = malloc(3000);
    memset(lost, 1, 3000);
    lost = NULL;
    free(used);
    usleep(2000);
  }
  return unused;
}

int main(void) {
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, Lose, NULL);
  usleep(300000);
  puts("ready");
  fflush(stdout);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  return 0;
}
