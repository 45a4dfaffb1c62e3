// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Prints what the schedulers' arithmetic says, for the host: a value a line, as formulas.rs asks for them. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
#include "goodness.h"
#include "o1.h"

static void habit_after(u64 sleep_avg, s32 credit, u64 time_ms, u32 base, bool uninterruptible)
{
	struct habit h = { .sleep_avg = sleep_avg, .credit = credit };
	add_sleep(&h, time_ms * MS, base, true, uninterruptible);
	printf("sleep %d %llu %d\n", (int)time_ms, (unsigned long long)(h.sleep_avg / MS), h.credit);
}

static void habit_after_run(u64 sleep_avg, s32 credit, u64 time_ms)
{
	struct habit h = { .sleep_avg = sleep_avg, .credit = credit };
	add_run(&h, time_ms * MS);
	printf("run %d %llu %d\n", (int)time_ms, (unsigned long long)(h.sleep_avg / MS), h.credit);
}

int main(void)
{
	for (int nice = -20; nice < 20; nice++) {
		u32 base = nice + 20;
		u32 fresh = fresh_ticks(nice);
		printf("left %d", nice);
		for (u32 ms = 0; ms <= 120; ms += 5)
			printf(" %u", counted_down(fresh, ms * 1000));
		printf("\n");
		printf("nice %d %u %u %llu %d %llu\n", nice, fresh, recalculated(0, nice, 1000),
		       (unsigned long long)(timeslice(base) / MS), interactive_delta(base),
		       (unsigned long long)(just_interactive(base) / MS));
	}
	printf("worth %d %d %d\n", worth(0, 0, true), worth(6, 0, false), worth(6, 0, true));
	printf("worth_on %d %d %d\n", worth_on(0, 0, true, true), worth_on(6, 0, false, true), worth_on(6, 0, true, false));
	printf("recalculated %u %u %u\n", recalculated(6, 0, 1), recalculated(3, 0, 2), recalculated(5, 0, 0));
	for (u32 left = 0; left < 4; left++)
		printf("fork %u %u %u\n", left, child_ticks(left), parent_ticks(left));
	printf("exit %u %u\n", returned_ticks(6, 3), returned_ticks(18, 6));
	for (u32 b = 0; b <= 10; b++) {
		u64 sleep = b * AVERAGE_SLICE;
		printf("bonus %u %u %u %llu %llu %llu %llu\n", b, bonus(sleep), priority(20, sleep),
		       (unsigned long long)(granularity(sleep, 1) / MS), (unsigned long long)(granularity(sleep, 4) / MS),
		       (unsigned long long)(parent_sleep(sleep) / MS),
		       (unsigned long long)(child_sleep(sleep) / MS));
	}
	printf("edges %u %u\n", priority(0, MOST_SLEEP), priority(39, 0));
	habit_after(0, 0, 10, 20, false);
	habit_after(0, 0, 900, 20, false);
	habit_after(0, 0, 900, 20, true);
	habit_after(0, -101, 100, 20, false);
	habit_after_run(500 * MS, 0, 100);
	habit_after_run(1020 * MS, 101, 100);
	habit_after_run(50 * MS, 0, 100);
	printf("uninterruptible %d %d %d %d %d\n", is_uninterruptible(0x1), is_uninterruptible(0x2),
	       is_uninterruptible(0x102), is_uninterruptible(0x2102), is_uninterruptible(0x402));
	printf("starving %d %d\n", is_starving(1020 * MS * 3, 3), is_starving(1020 * MS * 3 + MS, 3));
	printf("turn %llu %llu %llu\n", (unsigned long long)(turn(20, 20, 0, 70 * MS, 1) / MS),
	       (unsigned long long)(turn(20, 15, MOST_SLEEP, 70 * MS, 1) / MS),
	       (unsigned long long)(turn(20, 15, MOST_SLEEP, 70 * MS, 3) / MS));
	return 0;
}
