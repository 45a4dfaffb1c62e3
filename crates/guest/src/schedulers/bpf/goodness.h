// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The arithmetic of 2.4's scheduler (2.4.17, HZ = 100), for BPF and for a test on the host alike. */
#pragma once

/* A tick of 2.4's clock. */
#define TICK_US 10000u

/* What a task may have at the most when its children's rest comes back to it: 200 ms. */
#define MOST_TICKS 20u

/* Ticks that a task gets anew: 6, or 60 ms, at nice 0. */
static inline u32 fresh_ticks(s32 nice)
{
	return ((u32)(20 - nice) >> 2) + 1;
}

/* What is left of a counter after so much time on the CPU since it last lost a tick. */
static inline u32 counted_down(u32 counter, u32 used_us)
{
	u32 whole = used_us / TICK_US;
	return whole < counter ? counter - whole : 0;
}

/* What a task has after so many recalculations: half of its rest stays each time, which ends after six. */
static inline u32 recalculated(u32 counter, s32 nice, u32 times)
{
	u32 fresh = fresh_ticks(nice);
	for (u32 i = 0; i < 6 && i < times; i++)
		counter = (counter >> 1) + fresh;
	return counter;
}

/* How much a task deserves the CPU; 0 for one that has used up its time. */
static inline s32 worth(u32 counter, s32 nice, bool same_mm)
{
	return counter ? (s32)counter + 20 - nice + same_mm : 0;
}

/* What a task is worth more on the CPU on which it ran last, whose cache may still have its memory: i386's. */
#define PROC_CHANGE_PENALTY 15

static inline s32 worth_on(u32 counter, s32 nice, bool same_mm, bool same_cpu)
{
	return worth(counter, nice, same_mm) + (counter && same_cpu ? PROC_CHANGE_PENALTY : 0);
}

static inline u32 child_ticks(u32 parents) { return (parents + 1) >> 1; }
static inline u32 parent_ticks(u32 parents) { return parents >> 1; }

/* What a parent has after its child's end. */
static inline u32 returned_ticks(u32 parents, u32 childs)
{
	u32 sum = parents + childs;
	return sum < MOST_TICKS ? sum : MOST_TICKS;
}
