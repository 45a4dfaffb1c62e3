// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The design of Linux 2.4: one list of all runnable tasks, and whoever chooses the next looks at each of them. The list goes
 * through the table of tasks; entry 0 is its head, which no task is. On one CPU operations come one after another, so
 * nothing is locked.
 */
#include "kernel.h"
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
static u32 current_pid, runnable;

/* The verifier's own bound of a loop, `may_goto`: assemblers before LLVM 19 have no name for it. */
#define BOUNDED_OR(label) \
	asm volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[" #label "] - 1b - 8) / 8) & 0xffff; .short 0" :::: label)

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

static inline s32 goodness(struct slot *s, u64 mm)
{
	return worth(ticks(s), s->nice, s->mm == mm || !s->mm);
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

/* The best of all, or 0 where none is better than `best`, which becomes the goodness of the one that is found. */
static __noinline u32 scan(u64 mm, s32 *best)
{
	u32 found = 0, pid = slot(0)->next;
	s32 most = *best;
	while (pid) {
		BOUNDED_OR(out);
		struct slot *s = slot(pid);
		s32 own = goodness(s, mm);
		if (own > most) {
			most = own;
			found = pid;
		}
		pid = s->next;
	}
out:
	counters.scanned += runnable;
	*best = most;
	return found;
}

s32 OP(goodness_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/* Whether a task that wakes is better than the one that runs, and than all that wait. */
static inline bool preempts(struct slot *s)
{
	struct slot *current = slot(current_pid);
	s32 best = goodness(s, current->mm);
	if (!current_pid || best <= goodness(current, current->mm))
		return false;
	counters.picks++;
	return !scan(current->mm, &best);
}

void OP(goodness_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid;
	struct slot *s = slot(pid);
	bool last = s->yielded;
	if (!has_place(pid)) {
		run_unscheduled(p, enq_flags);
		return;
	}
	s->yielded = false;
	if ((enq_flags & SCX_ENQ_WAKEUP) && preempts(s)) {
		counters.preemptions++;
		insert(p, SCX_DSQ_LOCAL, slice_ns(s), enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	link(s, pid, last);
}

void OP(goodness_dequeue, struct task_struct *p, u64 deq_flags)
{
	if (has_place(p->pid))
		unlink(slot(p->pid));
}

/* Gives the CPU to a task that waits. */
static inline void run(u32 pid)
{
	struct slot *s = slot(pid);
	struct task_struct *p = bpf_task_from_pid(pid);
	unlink(s);
	if (!p)
		return;
	insert(p, SCX_DSQ_LOCAL, slice_ns(s), 0);
	bpf_task_release(p);
}

void OP(goodness_dispatch, s32 cpu, struct task_struct *prev)
{
	struct slot *mine = NULL;
	u64 mm = prev ? (u64)prev->active_mm : 0;
	counters.picks++;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && has_place(prev->pid)) {
		mine = slot(prev->pid);
		charge(mine, prev->se.sum_exec_runtime);
	}
	for (int round = 0; round < 2; round++) {
		/* Who yields comes after all others, and before nobody. */
		s32 best = !mine ? -1000 : mine->yielded ? -1 : goodness(mine, mm);
		u32 pid = scan(mm, &best);
		if (!best) {
			/* All have used up their time. */
			epoch++;
			counters.recalculations++;
			continue;
		}
		if (pid) {
			run(pid);
		} else if (mine) {
			mine->yielded = false;
			scx_bpf_task_set_slice(prev, slice_ns(mine));
		}
		return;
	}
}

bool OP(goodness_yield, struct task_struct *from, struct task_struct *to)
{
	if (!to && has_place(from->pid)) {
		slot(from->pid)->yielded = true;
		scx_bpf_task_set_slice(from, 0);
	}
	return false;
}

void OP(goodness_running, struct task_struct *p)
{
	struct slot *s = slot(p->pid);
	if (!has_place(p->pid))
		return;
	current_pid = p->pid;
	s->started = p->se.sum_exec_runtime;
	s->mm = (u64)p->mm;
	s->nice = p->static_prio - 120;
}

void OP(goodness_stopping, struct task_struct *p, bool is_runnable)
{
	current_pid = 0;
	if (has_place(p->pid))
		charge(slot(p->pid), p->se.sum_exec_runtime);
}

s32 OP(goodness_init_task, struct task_struct *p, struct scx_init_task_args *args)
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
		u32 left = ticks(parent);
		s->counter = child_ticks(left);
		parent->counter = parent_ticks(left);
	}
	return 0;
}

void OP(goodness_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 parent_pid = p->real_parent->pid;
	if (args->cancelled || !has_place(p->pid) || !has_place(parent_pid))
		return;
	struct slot *s = slot(p->pid), *parent = slot(parent_pid);
	unlink(s);
	parent->counter = returned_ticks(ticks(parent), ticks(s));
}

void OP(goodness_exit, struct scx_exit_info *info)
{
	tell_exit(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops goodness_ops = {
	.select_cpu = (void *)goodness_select_cpu,
	.enqueue = (void *)goodness_enqueue,
	.dequeue = (void *)goodness_dequeue,
	.dispatch = (void *)goodness_dispatch,
	.yield = (void *)goodness_yield,
	.running = (void *)goodness_running,
	.stopping = (void *)goodness_stopping,
	.init_task = (void *)goodness_init_task,
	.exit_task = (void *)goodness_exit_task,
	.exit = (void *)goodness_exit,
	.name = "goodness",
};
