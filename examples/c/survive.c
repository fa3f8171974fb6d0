/* A rank dies, and a C program goes on: sums go on by themselves, a gather tells who is away.
 *
 *   cc -std=c11 survive.c $(holdfast info --cflags --libs) -o survive
 *   holdfast run -n 4 --respawn ./survive
 *
 * The last rank ends itself by SIGKILL in the middle of a loop. The launcher starts it again, and
 * it takes its place at a step boundary; the step number comes to it by a sum.
 */
#define _POSIX_C_SOURCE 200809L
#include <holdfast/holdfast.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 100000
#define STEPS 40
#define MAX_RANKS 64

static void check(hf_status status, const char* what) {
  if (status == HF_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), hf_last_error());
  exit(1);
}

/* Sums what all ranks have; returns how many ranks are in every part of the result. */
static size_t sum(hf_group* group, float* values, float mine) {
  hf_work* work = NULL;
  for (int i = 0; i < COUNT; ++i) values[i] = mine;
  check(hf_all_reduce(group, values, values, COUNT, HF_F32, HF_SUM, &work), "all_reduce");
  check(hf_work_wait(work, -1), "all_reduce");
  const size_t contributors = hf_work_contributors(work, NULL, 0);
  hf_work_free(work);
  return contributors;
}

/* A gather needs everybody. Returns whether all were there; rank 0 says, once, who was not. */
static int gather(hf_group* group, int32_t mine, int told) {
  int32_t all[MAX_RANKS];
  const hf_status status = hf_all_gather(group, &mine, all, 1, HF_I32, NULL);
  if (status == HF_OK) return 1;
  if (status != HF_PEER_LOST) check(status, "all_gather");
  int32_t away[MAX_RANKS];
  const size_t count = hf_last_error_ranks(away, MAX_RANKS);
  if (mine == 0 && told == 0 && count > 0) {
    printf("all_gather: %s: rank %" PRId32 " is away; the group goes on\n", hf_status_name(status),
           away[0]);
  }
  return 0;
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
  if (size < 2 || size > MAX_RANKS) return 2;
  /* The first view is 1: whoever comes into a later one was started again. */
  const int came_back = hf_group_epoch(group) > 1;
  float* values = malloc(COUNT * sizeof *values);
  if (values == NULL) return 1;

  int losses = 0;
  int told = 0;
  int64_t step = 0;
  while (step < STEPS || hf_group_live_ranks(group, NULL, 0) < (size_t)size) {
    check(hf_group_advance(group, -1), "advance"); /* the step boundary, where ranks come in */
    check(hf_all_reduce(group, &step, &step, 1, HF_I64, HF_MAX, NULL), "step");
    if (rank == size - 1 && step == STEPS / 2 && !came_back) raise(SIGKILL);
    losses += sum(group, values, 1.0f) < (size_t)size;
    if (!gather(group, rank, told)) ++told;
    ++step;
  }

  const size_t there = sum(group, values, (float)(rank + 1));
  const float wanted = (float)(size * (size + 1) / 2);
  if (there != (size_t)size || values[0] != wanted || values[COUNT - 1] != wanted) return 1;
  if (rank == 0) {
    printf("%d steps without a rank, then all %" PRId32 " again: the sum is %.0f\n", told, size,
           (double)values[0]);
  }
  free(values);
  check(hf_group_close(group, 5000000000), "close");
  hf_group_free(group);
  hf_node_free(node);
  return losses == 0 && !came_back; /* somebody must have been missed */
}
