// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The design of Linux 2.6.0: two arrays of queues by priority, with a bit for each queue that holds a task. Who has used up
 * its slice goes to the expired array; when the active one is empty, they change places. Of the 140 priorities the 40 of
 * ordinary tasks are here: real-time tasks are no business of sched_ext. On one CPU operations come one after another, so
 * nothing is locked. For several: o1_smp.bpf.c.
 */
#include "kernel.h"

static inline u32 online_cpus(void) { return 1; }

#include "o1_slots.h"

static struct queue queues[2][64];
static u64 bits[2], expired_at;
static u32 active, runnable;
static u32 current_pid, current_prio = NONE; /* of the task that runs, or is on its way */

static inline void link(struct slot *s, u32 pid, u32 array, bool first)
{
	u32 a = array & 1, prio = s->prio & 63;
	struct queue *q = &queues[a][prio];
	if (s->queued)
		return;
	s->array = a;
	queue_add(q, s, pid, first);
	bits[a] |= 1ULL << prio;
	s->queued = true;
	runnable++;
}

static inline void unlink(struct slot *s)
{
	if (!s->queued)
		return;
	u32 a = s->array & 1, prio = s->prio & 63;
	struct queue *q = &queues[a][prio];
	queue_remove(q, s);
	if (!q->first)
		bits[a] &= ~(1ULL << prio);
	s->queued = false;
	runnable--;
}

/* The lowest bit that is set, of at least one. */
static inline u32 first_bit(u64 bits)
{
	u32 n = 0;
	if (!(bits & 0xffffffff)) {
		n += 32;
		bits >>= 32;
	}
	if (!(bits & 0xffff)) {
		n += 16;
		bits >>= 16;
	}
	if (!(bits & 0xff)) {
		n += 8;
		bits >>= 8;
	}
	if (!(bits & 0xf)) {
		n += 4;
		bits >>= 4;
	}
	if (!(bits & 3)) {
		n += 2;
		bits >>= 2;
	}
	return n + !(bits & 1);
}

/* The array for the task that runs and wants on. A slice that is used up is made anew. */
static inline u32 array_after(struct slot *s)
{
	if (s->yielded) {
		s->yielded = false;
		return !active;
	}
	s->prio = priority(s->base, s->habit.sleep_avg);
	if (s->left)
		return active;
	s->left = timeslice(s->base);
	s->first_slice = false;
	u64 now = bpf_ktime_get_ns();
	if (!expired_at)
		expired_at = now;
	if (is_interactive(s->base, s->prio) && !is_starving(now - expired_at, runnable + 1))
		return active;
	return !active;
}

s32 OP(o1_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

/* Gives a task the CPU of the one that runs, which is put back at the head of its queue. */
static inline void take_cpu(struct task_struct *p, struct slot *s, u64 enq_flags)
{
	counters.picks++;
	current_pid = p->pid;
	current_prio = s->prio;
	insert(p, SCX_DSQ_LOCAL, turn_of(s), enq_flags | SCX_ENQ_PREEMPT);
}

static inline void enqueue_woken(struct task_struct *p, struct slot *s, u64 enq_flags)
{
	u64 now = bpf_ktime_get_ns();
	if (s->since)
		count_sleep(s, now - s->since);
	s->since = now;
	s->has_woken = !s->uninterruptible;
	if (current_pid && s->prio < current_prio) {
		/* Better than the one that runs, which is the best of all. */
		counters.preemptions++;
		s->has_woken = false;
		take_cpu(p, s, enq_flags);
		return;
	}
	link(s, p->pid, active, false);
}

/*
 * A child stands right before its parent, at its priority, and runs first: 2.6.0's do_fork ends with set_need_resched. After
 * vfork the parent waits for its child, and so goes on to where it does. A parent of another class is in no array.
 */
static inline void enqueue_new(struct task_struct *p, struct slot *s, u64 enq_flags)
{
	s->is_new = false;
	if (current_pid)
		s->prio = current_prio;
	if (current_pid && !p->vfork_done)
		take_cpu(p, s, enq_flags);
	else
		link(s, p->pid, active, current_pid);
}

void OP(o1_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 pid = p->pid;
	struct slot *s = slot(pid);
	if (!has_place(pid)) {
		run_unscheduled(p, enq_flags);
	} else if (enq_flags & SCX_ENQ_WAKEUP) {
		enqueue_woken(p, s, enq_flags);
	} else if (s->is_new) {
		enqueue_new(p, s, enq_flags);
	} else if (s->decided) {
		s->decided = false;
		link(s, pid, s->array, false);
	} else if (s->left && !s->yielded) {
		/* Another has taken the CPU from it: it keeps its place. */
		link(s, pid, active, true);
	} else {
		link(s, pid, array_after(s), false);
	}
}

void OP(o1_dequeue, struct task_struct *p, u64 deq_flags)
{
	if (has_place(p->pid))
		unlink(slot(p->pid));
}

/* Gives the CPU to a task that waits. What it has waited since its waking counts in part as sleep. */
static inline void run(u32 pid)
{
	struct slot *s = slot(pid);
	struct task_struct *p = bpf_task_from_pid(pid);
	unlink(s);
	if (!p)
		return;
	if (s->has_woken) {
		count_sleep(s, (bpf_ktime_get_ns() - s->since) * WAITED_128THS / 128);
		s->has_woken = false;
	}
	insert(p, SCX_DSQ_LOCAL, turn_of(s), 0);
	bpf_task_release(p);
}

void OP(o1_dispatch, s32 cpu, struct task_struct *prev)
{
	struct slot *mine = NULL;
	counters.picks++;
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED) && has_place(prev->pid)) {
		mine = slot(prev->pid);
		charge_slice(mine, prev->se.sum_exec_runtime);
		mine->array = array_after(mine) & 1;
		mine->decided = true;
	}
	for (int round = 0; round < 2; round++) {
		u32 a = active & 1;
		u32 prio = bits[a] ? first_bit(bits[a]) : NONE;
		if (mine && mine->array == a && mine->prio < prio) {
			mine->decided = false;
			charge_habit(mine, prev->se.sum_exec_runtime);
			current_pid = prev->pid;
			current_prio = mine->prio;
			scx_bpf_task_set_slice(prev, turn_of(mine));
			return;
		}
		if (prio < NONE) {
			counters.scanned++;
			run(queues[a][prio & 63].first);
			return;
		}
		expired_at = 0;
		if (!mine && !bits[a ^ 1])
			return;
		active = a ^ 1;
		counters.exchanges++;
	}
}

void OP(o1_running, struct task_struct *p)
{
	struct slot *s = slot(p->pid);
	if (!has_place(p->pid))
		return;
	s->charged = s->started = p->se.sum_exec_runtime;
	s->base = p->static_prio - 100;
	s->is_user = p->mm != NULL;
	s->uninterruptible = false;
	current_pid = p->pid;
	current_prio = s->prio;
}

void OP(o1_stopping, struct task_struct *p, bool is_runnable)
{
	struct slot *s = slot(p->pid);
	current_pid = 0;
	current_prio = NONE;
	if (!has_place(p->pid))
		return;
	charge_slice(s, p->se.sum_exec_runtime);
	charge_habit(s, p->se.sum_exec_runtime);
	if (!is_runnable) {
		s->since = bpf_ktime_get_ns();
		s->uninterruptible = is_uninterruptible(p->__state);
	}
}

void OP(o1_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 parent_pid = p->real_parent->pid;
	if (args->cancelled || !has_place(p->pid) || !has_place(parent_pid))
		return;
	struct slot *s = slot(p->pid), *parent = slot(parent_pid);
	unlink(s);
	return_rest(parent, s);
}

s32 OP(o1_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return init_slot(p, args);
}

SEC(".struct_ops.link")
struct sched_ext_ops o1_ops = {
	.select_cpu = (void *)o1_select_cpu,
	.enqueue = (void *)o1_enqueue,
	.dequeue = (void *)o1_dequeue,
	.dispatch = (void *)o1_dispatch,
	.yield = (void *)o1_yield,
	.running = (void *)o1_running,
	.stopping = (void *)o1_stopping,
	.init_task = (void *)o1_init_task,
	.exit_task = (void *)o1_exit_task,
	.exit = (void *)o1_exit,
	.name = "o1",
};
