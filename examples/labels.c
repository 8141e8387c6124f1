// A server that labels its threads with the tenant that they work for. Build it in the folder above this one:
//
//     cc -pthread -Iinclude examples/labels.c -o labels
//     holdfast run -- ./labels; holdfast top --by tenant holdfast.labels.*/*.heap.pb.gz      memory by tenant
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRequests = 1000 };

static void* kept[kRequests];

__attribute__((noinline)) void serve(int request) { kept[request] = malloc(request % 4 == 0 ? 3000 : 1000); }

int main(void) {
  for (int i = 0; i < kRequests; ++i) {
    const uint32_t before = holdfast_label("tenant", i % 4 == 0 ? "acme" : "zenith");
    serve(i);
    holdfast_set_labels(before);
  }
  for (int i = 0; i < kRequests; i += 8) free(kept[i]);  // acme's, whichever thread frees it
  puts("expect tenant=acme 250 750000 125 375000");
  puts("expect tenant=zenith 750 750000 750 750000");
}
