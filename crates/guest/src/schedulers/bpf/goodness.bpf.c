// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The design of Linux 2.4: one list of all runnable tasks, and whoever chooses the next looks at each of them. On one CPU
 * operations come one after another, so nothing is locked. For several: goodness_smp.bpf.c.
 */
#include "kernel.h"

static inline void lock_list(void) {}
static inline void unlock_list(void) {}

#include "goodness_list.h"

static u32 current_pid; /* runs, or is on its way */

static inline s32 goodness(struct slot *s, u64 mm)
{
	return worth(ticks(s), s->nice, s->mm == mm || !s->mm);
}

static inline s32 running_goodness(struct slot *s)
{
	return worth(running_ticks(s), s->nice, true);
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

/*
 * Whether a task that wakes, or is new, is better than the one that runs, and than all that wait. None runs while one that has
 * run is put back.
 */
static inline bool preempts(struct slot *s)
{
	struct slot *current = slot(current_pid);
	s32 best = goodness(s, current->mm);
	if (!current_pid || best <= running_goodness(current))
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
	if (!last && preempts(s)) {
		counters.preemptions++;
		current_pid = pid;
		insert(p, SCX_DSQ_LOCAL, slice_ns(s), enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	link(s, pid, last);
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
			current_pid = prev->pid;
			scx_bpf_task_set_slice(prev, slice_ns(mine));
		}
		return;
	}
}

void OP(goodness_running, struct task_struct *p)
{
	struct slot *s = slot(p->pid);
	if (!has_place(p->pid))
		return;
	current_pid = p->pid;
	s->charged = s->ran = p->se.sum_exec_runtime;
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
	return init_slot(p, args);
}

SEC(".struct_ops.link")
struct sched_ext_ops goodness_ops = {
	.select_cpu = (void *)goodness_select_cpu,
	.enqueue = (void *)goodness_enqueue,
	.dequeue = (void *)goodness_dequeue,
	.dispatch = (void *)goodness_dispatch,
	.tick = (void *)goodness_tick,
	.yield = (void *)goodness_yield,
	.running = (void *)goodness_running,
	.stopping = (void *)goodness_stopping,
	.init_task = (void *)goodness_init_task,
	.exit_task = (void *)goodness_exit_task,
	.exit = (void *)goodness_exit,
	.name = "goodness",
};
