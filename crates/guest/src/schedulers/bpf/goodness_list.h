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
	u64 mm;
	u64 charged; /* CPU time that the counter has seen */
	u64 ran;     /* CPU time at the last tick, or when it was charged */
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

/* What it has used of its counter, of which it has lost the whole ticks before. */
static inline u32 used_us(struct slot *s, u64 now)
{
	return s->used_us + (u32)((now - s->charged) / 1000);
}

/* 2.4 counts down at each tick what the running task has left; here it is charged later, and asked for in between. */
static inline u32 running_ticks(struct slot *s)
{
	return counted_down(ticks(s), used_us(s, s->ran));
}

static inline void charge(struct slot *s, u64 now)
{
	u32 used = used_us(s, now);
	s->counter = counted_down(ticks(s), used);
	s->used_us = used % TICK_US;
	s->charged = s->ran = now;
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

void OP(goodness_tick, struct task_struct *p)
{
	if (has_place(p->pid))
		slot(p->pid)->ran = p->se.sum_exec_runtime;
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
	s->used_us = s->charged = s->ran = 0;
	s->counter = fresh_ticks(s->nice);
	struct task_struct *parent_task = bpf_get_current_task_btf();
	u32 parent_pid = parent_task->pid;
	if (args->fork && has_place(parent_pid)) {
		/* Both share what the parent has left, which runs no longer than that. */
		struct slot *parent = slot(parent_pid);
		bool is_ours = parent_task->scx.flags & SCX_TASK_QUEUED;
		u64 run_time = parent_task->se.sum_exec_runtime;
		lock_list();
		if (is_ours)
			charge(parent, run_time);
		u32 left = ticks(parent);
		s->counter = child_ticks(left);
		parent->counter = parent_ticks(left);
		u64 slice = slice_ns(parent);
		unlock_list();
		if (is_ours)
			scx_bpf_task_set_slice(parent_task, slice);
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
