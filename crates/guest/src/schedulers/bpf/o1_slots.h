// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What 2.6.0's scheduler knows of each task, for one CPU and for several. Who includes this says what `online_cpus` is. */
#pragma once
#include "o1.h"

#define NONE 64

struct slot {
	u16 next, prev;
	u8 base, prio, array;
	bool queued, yielded, is_user, is_new;
	bool first_slice;     /* what it has was its parent's */
	bool decided;         /* `array` says where it belongs */
	bool uninterruptible; /* it sleeps so */
	bool has_woken;       /* and has not run since */
	struct habit habit;
	u64 left;
	u64 since;            /* it sleeps, or waits for the CPU */
	u64 charged, started; /* CPU time that its slice and its habit have seen */
};
static struct slot slots[TASKS];

static inline struct slot *slot(u32 pid) { return &slots[pid & (TASKS - 1)]; }

/* Tasks of one priority, in their order. */
struct queue {
	u16 first, last;
};

static inline void queue_add(struct queue *q, struct slot *s, u32 pid, bool first)
{
	if (!q->first) {
		s->next = s->prev = 0;
		q->first = q->last = pid;
	} else if (first) {
		s->prev = 0;
		s->next = q->first;
		slot(q->first)->prev = pid;
		q->first = pid;
	} else {
		s->next = 0;
		s->prev = q->last;
		slot(q->last)->next = pid;
		q->last = pid;
	}
}

static inline void queue_remove(struct queue *q, struct slot *s)
{
	if (s->prev)
		slot(s->prev)->next = s->next;
	else
		q->first = s->next;
	if (s->next)
		slot(s->next)->prev = s->prev;
	else
		q->last = s->prev;
}

static inline u64 turn_of(struct slot *s)
{
	return turn(s->base, s->prio, s->habit.sleep_avg, s->left, online_cpus()) + 1;
}

/* So much of the time since then counts as sleep. */
static inline void count_sleep(struct slot *s, u64 time)
{
	add_sleep(&s->habit, time, s->base, s->is_user, s->uninterruptible);
	s->prio = priority(s->base, s->habit.sleep_avg);
}

static inline void charge_slice(struct slot *s, u64 now)
{
	u64 used = now - s->charged;
	s->charged = now;
	s->left = used < s->left ? s->left - used : 0;
}

static inline void charge_habit(struct slot *s, u64 now)
{
	add_run(&s->habit, now - s->started);
	s->started = now;
}

bool OP(o1_yield, struct task_struct *from, struct task_struct *to)
{
	if (!to && has_place(from->pid)) {
		slot(from->pid)->yielded = true;
		scx_bpf_task_set_slice(from, 0);
	}
	return false;
}

static inline s32 init_slot(struct task_struct *p, struct scx_init_task_args *args)
{
	struct slot *s = slot(p->pid);
	if (!has_place(p->pid)) {
		counters.refused++;
		return 0;
	}
	s->base = p->static_prio - 100;
	s->queued = s->yielded = s->decided = s->has_woken = s->uninterruptible = s->first_slice = false;
	s->is_user = p->mm != NULL;
	s->is_new = args->fork;
	s->since = s->habit.sleep_avg = s->habit.credit = 0;
	s->left = timeslice(s->base);
	struct task_struct *parent_task = bpf_get_current_task_btf();
	u32 parent_pid = parent_task->pid;
	if (args->fork && has_place(parent_pid)) {
		struct slot *parent = slot(parent_pid);
		if (parent_task->scx.flags & SCX_TASK_QUEUED)
			charge_slice(parent, parent_task->se.sum_exec_runtime);
		s->left = (parent->left + 1) / 2;
		parent->left /= 2;
		s->first_slice = true;
		s->habit.sleep_avg = child_sleep(parent->habit.sleep_avg);
		parent->habit.sleep_avg = parent_sleep(parent->habit.sleep_avg);
	}
	s->prio = priority(s->base, s->habit.sleep_avg);
	return 0;
}

/* A parent gets back what its child has left of a first slice, and learns of its habits. */
static inline void return_rest(struct slot *parent, struct slot *s)
{
	if (s->first_slice) {
		parent->left += s->left;
		if (parent->left > MOST_SLICE)
			parent->left = MOST_SLICE;
	}
	parent->habit.sleep_avg = sleep_after_child(parent->habit.sleep_avg, s->habit.sleep_avg);
}

void OP(o1_exit, struct scx_exit_info *info)
{
	tell_exit(info);
}
