// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * 2.4's one list of all runnable tasks, and the time that each of them has left, for one CPU and for several. The list goes
 * through the table of tasks; entry 0 is its head, which no task is. Who includes this says what `lock_list` is.
 */
#pragma once
#include "goodness.h"

struct slot {
	u16 next, prev;
	u8 counter;
	signed char nice;
	bool queued, yielded;
	u32 used_us; /* of the tick that has begun */
	u32 epoch;   /* recalculations that the counter has seen */
	u64 mm, started;
};
static struct slot slots[TASKS];
static u32 epoch = 1;
static u32 runnable;

static inline struct slot *slot(u32 pid) { return &slots[pid & (TASKS - 1)]; }

/* 2.4 went over all tasks at once; here each does it when it is next looked at. */
static inline u32 ticks(struct slot *s)
{
	if (s->epoch != epoch) {
		s->counter = recalculated(s->counter, s->nice, epoch - s->epoch);
		s->epoch = epoch;
	}
	return s->counter;
}

static inline u64 slice_ns(struct slot *s)
{
	u32 all = ticks(s) * TICK_US;
	return (u64)(all > s->used_us ? all - s->used_us : 1) * 1000;
}

static inline void charge(struct slot *s, u64 now)
{
	u32 used = s->used_us + (u32)((now - s->started) / 1000), whole = used / TICK_US, left = ticks(s);
	s->started = now;
	s->used_us = used % TICK_US;
	s->counter = whole < left ? left - whole : 0;
}

static inline void unlink(struct slot *s)
{
	if (!s->queued)
		return;
	slot(s->prev)->next = s->next;
	slot(s->next)->prev = s->prev;
	s->queued = false;
	runnable--;
}

static inline void link(struct slot *s, u32 pid, bool last)
{
	if (s->queued)
		return;
	struct slot *head = slot(0);
	if (last) {
		s->next = 0;
		s->prev = head->prev;
		slot(head->prev)->next = pid;
		head->prev = pid;
	} else {
		s->prev = 0;
		s->next = head->next;
		slot(head->next)->prev = pid;
		head->next = pid;
	}
	s->queued = true;
	runnable++;
}

/* Takes a task out of the list, if it is in it. */
static inline void leave(struct slot *s)
{
	if (!s->queued)
		return;
	lock_list();
	unlink(s);
	unlock_list();
}

void OP(goodness_dequeue, struct task_struct *p, u64 deq_flags)
{
	if (has_place(p->pid))
		leave(slot(p->pid));
}

bool OP(goodness_yield, struct task_struct *from, struct task_struct *to)
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
	s->nice = p->static_prio - 120;
	s->mm = (u64)p->mm;
	s->queued = s->yielded = false;
	s->epoch = epoch;
	s->used_us = 0;
	s->counter = fresh_ticks(s->nice);
	u32 parent_pid = bpf_get_current_task_btf()->pid;
	if (args->fork && has_place(parent_pid)) {
		/* Both share what the parent has left. */
		struct slot *parent = slot(parent_pid);
		lock_list();
		u32 left = ticks(parent);
		s->counter = child_ticks(left);
		parent->counter = parent_ticks(left);
		unlock_list();
	}
	return 0;
}

void OP(goodness_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 parent_pid = p->real_parent->pid;
	if (args->cancelled || !has_place(p->pid) || !has_place(parent_pid))
		return;
	struct slot *s = slot(p->pid), *parent = slot(parent_pid);
	lock_list();
	unlink(s);
	parent->counter = returned_ticks(ticks(parent), ticks(s));
	unlock_list();
}

void OP(goodness_exit, struct scx_exit_info *info)
{
	tell_exit(info);
}
