/* Every rank adds up what all ranks have, over Holdfast's C interface.
 *
 *   cc -std=c11 all_reduce.c $(holdfast info --cflags --libs) -o all_reduce
 *   holdfast run -n 4 ./all_reduce
 */
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000

static void check(hf_status status, const char* what) {
  if (status == HF_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), hf_last_error());
  exit(1);
}

int main(void) {
  hf_options options;
  hf_node* node = NULL;
  hf_group* group = NULL;
  check(hf_options_from_env(&options), "options");
  check(hf_node_create(&options, &node), "node");
  check(hf_group_join_env(node, "world", &group), "group");
  const int32_t rank = hf_group_rank(group);
  const int32_t size = hf_group_size(group);

  float* values = malloc(COUNT * sizeof *values);
  if (values == NULL) return 1;
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(rank + 1);

  /* In place, and without waiting at once. */
  hf_work* work = NULL;
  check(hf_all_reduce(group, values, values, COUNT, HF_F32, HF_SUM, &work), "all_reduce");
  check(hf_work_wait(work, -1), "all_reduce");
  hf_work_free(work);

  const float expected = (float)(size * (size + 1) / 2);
  for (int i = 0; i < COUNT; ++i) {
    if (values[i] != expected) {
      fprintf(stderr, "rank %" PRId32 ": %f instead of %f\n", rank, (double)values[i],
              (double)expected);
      return 1;
    }
  }
  printf("rank %" PRId32 " of %" PRId32 ": the sum is %.0f\n", rank, size, (double)values[0]);

  free(values);
  check(hf_barrier(group, NULL), "barrier");
  check(hf_group_close(group, 5000000000), "close");
  hf_group_free(group);
  hf_node_free(node);
  return 0;
}
