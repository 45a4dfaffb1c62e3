// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The arithmetic of 2.6.0's scheduler, with its clock of 1000 ticks a second, for BPF and for a test on the host alike.
 * Priorities are those of ordinary tasks, 0 to 39, which the kernel calls 100 to 139: nice -20 is 0, nice 0 is 20.
 */
#pragma once

#define MS 1000000ULL

/* Ten time slices of nice 0: what a task may have slept on average at the most. */
#define AVERAGE_SLICE (102 * MS)
#define MOST_BONUS 10u
#define MOST_SLEEP (MOST_BONUS * AVERAGE_SLICE)

/* Longest time slice, and the shortest. */
#define MOST_SLICE (200 * MS)
#define LEAST_SLICE (10 * MS)

/* Beyond so many, a task's credit says that it is interactive, or that it is not. */
#define CREDIT_LIMIT 100

/* Of the time that a task waits for the CPU after its waking, so much counts as sleep, in 128ths: 30 %. */
#define WAITED_128THS 38u

/* On several CPUs a busy one looks for a longer queue than its own so often, and leaves tasks that ran so short a time ago. */
#define BUSY_REBALANCE (200 * MS)
#define CACHE_DECAY (2 * MS)

/*
 * A task's state while it waits, as a disk is waited for. What a fatal signal ends (TASK_KILLABLE, as page cache is waited for
 * today) 2.6.0 knew as this; kernel threads that have nothing to do have TASK_NOLOAD beside it, and slept interruptibly then.
 */
#define TASK_UNINTERRUPTIBLE 0x2u
#define TASK_NOLOAD 0x400u

static inline bool is_uninterruptible(u32 state)
{
	return (state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE;
}

/* What a task has slept, and what is known of its habits. */
struct habit {
	u64 sleep_avg;
	s32 credit;
};

static inline u64 timeslice(u32 base)
{
	return LEAST_SLICE + (MOST_SLICE - LEAST_SLICE) / MS * (39 - base) / 39 * MS;
}

/* 0 for who never sleeps to 10 for who always does: five levels down to five up. */
static inline u32 bonus(u64 sleep_avg)
{
	return sleep_avg / MS * MOST_BONUS / (MOST_SLEEP / MS);
}

static inline u32 priority(u32 base, u64 sleep_avg)
{
	s32 prio = (s32)base + (s32)(MOST_BONUS / 2) - (s32)bonus(sleep_avg);
	return prio < 0 ? 0 : prio > 39 ? 39 : prio;
}

/* Levels above its own that make a task interactive: -3 at nice -20, 2 at nice 0, 6 at nice 19. Rounds towards 0. */
static inline s32 interactive_delta(u32 base)
{
	return base < 20 ? 2 - (s32)((20 - base) / 4) : 2 + (s32)((base - 20) / 4);
}

static inline bool is_interactive(u32 base, u32 prio)
{
	return (s32)prio <= (s32)base - interactive_delta(base);
}

/* Sleep that makes a task just interactive; who sleeps longer at once is called idle, and gets no more. */
static inline u64 just_interactive(u32 base)
{
	u32 levels = (u32)((s32)(MOST_BONUS / 2) + interactive_delta(base) + 1);
	return (MOST_SLEEP / MS * levels / MOST_BONUS - 1) * MS;
}

/* Interactive tasks of one level take turns of this length: the longer the more CPUs there are. */
static inline u64 granularity(u64 sleep_avg, u32 cpus)
{
	u32 left = MOST_BONUS - bonus(sleep_avg);
	return (LEAST_SLICE << ((left ? left : 1) - 1)) * cpus;
}

/* How long a task may run until it is looked at again: to the end of its turn, or of its slice. */
static inline u64 turn(u32 base, u32 prio, u64 sleep_avg, u64 left, u32 cpus)
{
	u64 slice = timeslice(base), part = granularity(sleep_avg, cpus);
	if (!is_interactive(base, prio))
		return left;
	u64 used = left < slice ? slice - left : 0;
	u64 to_edge = part - used % part;
	return left >= to_edge + part ? to_edge : left;
}

/* A task with memory of its own wakes, or begins to run, after `time` of sleep. */
static inline void add_sleep(struct habit *h, u64 time, u32 base, bool is_user, bool uninterruptible)
{
	if (time > MOST_SLEEP)
		time = MOST_SLEEP;
	if (!time)
		return;
	if (is_user && !uninterruptible && time > just_interactive(base)) {
		h->sleep_avg = MOST_SLEEP - AVERAGE_SLICE;
		if (h->credit <= CREDIT_LIMIT)
			h->credit++;
		return;
	}
	u32 steps = MOST_BONUS - bonus(h->sleep_avg);
	time *= steps ? steps : 1;
	if (h->credit < -CREDIT_LIMIT && time > timeslice(base))
		time = timeslice(base);
	if (uninterruptible && h->credit <= CREDIT_LIMIT && is_user) {
		u64 most = just_interactive(base);
		if (h->sleep_avg >= most) {
			time = 0;
		} else if (h->sleep_avg + time >= most) {
			h->sleep_avg = most;
			time = 0;
		}
	}
	h->sleep_avg += time;
	if (h->sleep_avg > MOST_SLEEP) {
		h->sleep_avg = MOST_SLEEP;
		if (h->credit <= CREDIT_LIMIT)
			h->credit++;
	}
}

/* A task has run for `time`; one with credit is charged less. */
static inline void add_run(struct habit *h, u64 time)
{
	u32 own = bonus(h->sleep_avg);
	if (time > MOST_SLEEP)
		time = MOST_SLEEP;
	if (h->credit > CREDIT_LIMIT)
		time /= own ? own : 1;
	if (time < h->sleep_avg) {
		h->sleep_avg -= time;
		return;
	}
	h->sleep_avg = 0;
	if (-CREDIT_LIMIT <= h->credit && h->credit <= CREDIT_LIMIT)
		h->credit--;
}

static inline u64 parent_sleep(u64 sleep_avg) { return bonus(sleep_avg) * AVERAGE_SLICE; }
static inline u64 child_sleep(u64 sleep_avg) { return bonus(sleep_avg) * 95 / 100 * AVERAGE_SLICE; }

/* A parent's average after the end of a child that has slept less. */
static inline u64 sleep_after_child(u64 parents, u64 childs)
{
	return childs < parents ? parents / 4 * 3 + childs / 4 : parents;
}

/* Whether expired tasks have waited for so long that interactive ones no longer go before them. */
static inline bool is_starving(u64 waited, u32 running)
{
	return waited >= MOST_SLEEP * running + MS;
}
